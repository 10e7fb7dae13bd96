"""Tasks: what a user writes for a model, and the ones that ship."""
