"""The phases of a model: modes, gradient step, replicas, LoRA, randomness, memory."""
