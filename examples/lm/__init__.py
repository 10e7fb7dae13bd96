"""Text generation: a causal language model answers prompts and messages."""
