"""Records the project's visible behaviour, and measures its structure."""
