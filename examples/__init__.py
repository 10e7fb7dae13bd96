"""Programs that show the main jobs on real input."""
