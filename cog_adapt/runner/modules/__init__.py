"""The base module and its private replicas: census, LoRA, adapters of named tensors."""
