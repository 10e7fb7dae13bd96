"""The mirror of Cog's HTTP API, with OpenAI's routes.

`model` names an adapter (an id, `support`, `support@v2`); "base" names the base.
"""

from fastapi import FastAPI

from cog_adapt import Settings, create_app, set_need
from examples.lm.server import openai


def build(settings: Settings) -> FastAPI:
    """Return the application to be served: the mirror with `/v1/…`."""
    app = create_app(settings)
    for route in ("POST /v1/chat/completions", "POST /v1/completions", "GET /v1/models"):
        set_need(route, "predict")  # else a key would need `admin`
    set_need("GET /v1/models/{id}", "predict")
    app.include_router(openai.router)
    return app
