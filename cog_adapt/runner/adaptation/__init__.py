"""Gradient steps on a private replica. Nothing here knows inference."""
