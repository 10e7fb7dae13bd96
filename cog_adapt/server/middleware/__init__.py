"""Plain ASGI around the application: keys, rates, limits, counts. Knows no prediction."""
