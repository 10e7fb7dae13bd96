"""`method=auto`: a head in closed form at once, then gradients where they pay."""
