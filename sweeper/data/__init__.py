"""From the data that a study names to train, validation and test arrays."""
