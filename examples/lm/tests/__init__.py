"""Tests of the language model."""
