"""Answers of the base and of adapters, many in one forward. Nothing here knows adaptation."""
