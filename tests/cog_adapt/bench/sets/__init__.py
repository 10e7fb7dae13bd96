"""Tests of the data sets of the quality benchmark."""
