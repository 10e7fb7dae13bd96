"""Text generation: SmolLM2-135M-Instruct answers messages."""
