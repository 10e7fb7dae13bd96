"""Measures the project's structure; plants faults; runs servers of other trees."""
