"""Study files made by Hypothesis: valid ones, and ones in which one thing is broken."""
