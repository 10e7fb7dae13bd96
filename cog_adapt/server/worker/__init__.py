"""The worker: the user's predictor, run for the front process.

It speaks `server.protocol` over a socket, and knows neither HTTP nor records. It never imports
torch by itself.
"""
