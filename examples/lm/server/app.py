"""The mirror of Cog's HTTP API, with OpenAI's two routes.

`model` names an adapter (an id, `support`, `support@v2`); "base" names the base.
"""

from fastapi import FastAPI

from cog_adapt import Settings, create_app, set_need
from examples.lm.server import openai


def build(settings: Settings) -> FastAPI:
    """Return the application to be served: the mirror with `/v1/…`."""
    app = create_app(settings)
    for path in ("/v1/chat/completions", "/v1/completions"):
        set_need(f"POST {path}", "predict")  # else a key would need `admin`
    app.include_router(openai.router)
    return app
