"""The findings of a check, and the report of all of them."""
