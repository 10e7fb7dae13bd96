"""Gradient steps on a private replica. This room does not import inference."""
