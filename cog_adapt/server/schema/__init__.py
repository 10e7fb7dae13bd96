"""The OpenAPI document of a predictor, and the validation of inputs."""
