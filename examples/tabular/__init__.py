"""Tables: rows of numbers get a number, or a class that the examples name."""
