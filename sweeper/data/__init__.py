"""From the data that a study names to arrays in three parts, ready to train on."""
