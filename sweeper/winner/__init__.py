"""What is done with the winner of a study: confirmed, reproduced, trained again on more rows."""
