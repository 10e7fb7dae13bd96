"""Planted breaks: each alone in a copy of the tree, where a test must turn red."""
