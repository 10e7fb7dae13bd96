"""The OpenAPI document of a predictor, and inputs checked by it."""
