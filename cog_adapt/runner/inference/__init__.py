"""Answers of the base and of adapters, many in one forward. This room imports no adaptation."""
