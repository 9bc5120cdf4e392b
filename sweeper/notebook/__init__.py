"""Results and progress in notebooks: figures, HTML and a card that is updated in place."""
