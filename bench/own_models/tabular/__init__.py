"""Rows of numbers: an MLP with BatchNorm gives prices."""
