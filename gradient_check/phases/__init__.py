"""How a model trains and answers: modes, gradient step, replicas, LoRA, randomness, memory."""
