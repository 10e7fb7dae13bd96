"""Adapters as things that their owners keep: files, metadata, names, budgets, formats."""
