"""Migrations, run at each start."""
