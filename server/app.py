"""The app: the place for routes, middleware or a policy of one's own."""

from fastapi import FastAPI

from cog_adapt import Settings, create_app


def build(settings: Settings) -> FastAPI:
    """The mirror of Cog's API."""
    return create_app(settings)
