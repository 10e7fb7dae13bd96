"""The place for routes, middleware and policy of your own.

`python -m server` calls `build` once its settings are read. A route, for example:

    from cog_adapt import ServiceDep

    def build(settings: Settings) -> FastAPI:
        app = create_app(settings)

        @app.get("/queue")
        async def queue(service: ServiceDep) -> dict[str, int]:
            return {"waiting": len(service.main.waiting)}

        return app

It stands behind the same keys and limits as every other. Where API keys are set, it needs `admin`,
or what `set_need` says. Its bodies may have 1 MiB, or what `set_body_limit` says: JSON is parsed
on the event loop.
"""

from fastapi import FastAPI

from cog_adapt import Settings, create_app


def build(settings: Settings) -> FastAPI:
    """Return the application that is served: the mirror's, and what you add to it."""
    return create_app(settings)
