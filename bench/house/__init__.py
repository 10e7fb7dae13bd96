"""What the outside can see of the project, and the figures of its structure."""
