"""Moves, holds, perturbs and reads a copy of the module under test."""
