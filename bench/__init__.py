"""What the project claims, measured: each script prints one table and can write its numbers."""
