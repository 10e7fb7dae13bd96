"""Where and how exactly tensors are computed: device, precision, memory, threads, randomness."""
