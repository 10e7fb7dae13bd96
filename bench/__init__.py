"""Measures the project's claims: each script prints one table and can write its numbers."""
