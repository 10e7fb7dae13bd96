"""The device of tensors and its properties: precision, memory, threads, randomness."""
