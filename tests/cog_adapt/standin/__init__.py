"""The stand-in for a CUDA card behaves as a card does, where it says so."""
