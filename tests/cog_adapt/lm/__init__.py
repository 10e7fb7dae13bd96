"""Tests of the tasks of language models, on small random models of the usual families."""
