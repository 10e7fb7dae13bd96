"""The worker: the user's predictor, run for the front process.

The worker speaks `cog_adapt.server.protocol` over a socket. It knows neither HTTP nor records, and
does not import torch itself.
"""
