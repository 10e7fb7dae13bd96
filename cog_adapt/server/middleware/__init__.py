"""Plain ASGI around the application: keys, rates, limits, counts. Does not know predictions."""
