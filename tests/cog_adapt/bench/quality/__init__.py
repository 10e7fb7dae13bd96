"""Tests of the quality benchmark."""
