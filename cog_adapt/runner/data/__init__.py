"""Training examples as callers send them: rows, their formats, their limits."""
