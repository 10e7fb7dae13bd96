"""The place for your own routes, middleware and policy.

`python -m server` calls `build` once its settings are read. A route, for example:

    from cog_adapt import ServiceDep

    def build(settings: Settings) -> FastAPI:
        app = create_app(settings)

        @app.get("/queue")
        async def queue(service: ServiceDep) -> dict[str, int]:
            return {"waiting": len(service.main.waiting)}

        return app

The same keys and limits protect such a route as every other. If API keys are set, it needs the
scope `admin`, or the scope that `set_need` names. Its bodies may have 1 MiB, or the limit that
`set_body_limit` sets, because JSON is parsed on the event loop.
"""

from fastapi import FastAPI

from cog_adapt import Settings, create_app


def build(settings: Settings) -> FastAPI:
    """Return the application that is served: the mirror's, and what you add to it."""
    return create_app(settings)
