"""Images: EfficientNet-Lite0 labels photographs of clothes."""
