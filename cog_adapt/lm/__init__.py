"""Causal language models of Hugging Face's decoder families, as tasks of the runner."""
