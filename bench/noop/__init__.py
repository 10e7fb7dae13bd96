"""The same no-op for each server that `bench.serving` compares."""
