"""Finds the module and the line behind a fault; runs only after a failure."""
