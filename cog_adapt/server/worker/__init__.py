"""The worker: the user's predictor, run for the front process.

It speaks `cog_adapt.server.protocol` over two sockets, and knows neither HTTP nor records. It never
imports torch by itself.
"""
