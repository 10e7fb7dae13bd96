"""The browser pages that may call this server."""

from urllib.parse import urlsplit

from starlette.middleware.cors import CORSMiddleware
from starlette.types import ASGIApp

from cog_adapt.server.errors import ConfigError


def allow_origins(app: ASGIApp, origins: tuple[str, ...]) -> ASGIApp:
    """Return the application with CORS answers for these origins.

    Raises:
        ConfigError: one is no origin.
    """
    for origin in origins:
        parts = urlsplit(origin)
        whole = f"{parts.scheme}://{parts.netloc}"
        if origin != "*" and (
            origin != whole or not parts.netloc or parts.scheme not in ("http", "https")
        ):
            raise ConfigError(
                f"CORS_ORIGINS has {origin!r}; write '*' or origins such as https://example.com, "
                "without a path."
            )
    return CORSMiddleware(
        app,
        allow_origins=origins,
        allow_methods=["GET", "POST", "PUT", "PATCH", "DELETE"],
        allow_headers=["*"],
        expose_headers=["Retry-After", "Idempotent-Replayed"],
    )
