"""Proofs on a CUDA device, and what its tests catch."""
