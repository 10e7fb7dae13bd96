"""One file for each change of the tables."""
