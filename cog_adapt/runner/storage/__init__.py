"""Adapters that owners keep: files, metadata, names, budgets, formats."""
