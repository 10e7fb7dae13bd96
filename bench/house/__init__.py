"""What the outside sees of a tree of this project, written down and compared."""
