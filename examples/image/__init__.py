"""Images: EfficientNet-Lite0 labels pictures by the labels of the examples."""
