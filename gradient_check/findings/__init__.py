"""What a check found, and the report of all of them."""
