"""Images: EfficientNet-Lite0 gives pictures the labels of the examples."""
