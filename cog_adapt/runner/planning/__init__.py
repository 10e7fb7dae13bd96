"""One adaptation from its plan to what is kept of it, and what its caller sees meanwhile."""
