"""Applications to put behind the middlewares."""

from fastapi import APIRouter, FastAPI
from starlette.responses import PlainTextResponse
from starlette.routing import Route


async def caller(scope, receive, send):
    await PlainTextResponse(scope.get("state", {}).get("caller", "nobody"))(scope, receive, send)


def small_app():
    """Routes in all the ways that FastAPI has for them."""
    app, router, inner = FastAPI(), APIRouter(), FastAPI()
    inner.get("/deep")(lambda: "deep")
    router.get("/forgotten/{item}")(lambda item: item)
    app.include_router(router, prefix="/included")
    app.mount("/mounted", inner)
    app.get("/healthz")(lambda: "alive")
    app.post("/predictions/{id:path}")(lambda id: id)
    app.router.routes.append(Route("/plain", PlainTextResponse("plain")))
    return app
