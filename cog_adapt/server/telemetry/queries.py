"""Hides the query of each request in its span: there may be a secret in it."""

from opentelemetry.context import Context
from opentelemetry.sdk.trace import Span, SpanProcessor

_QUERY, _HIDDEN = "url.query", "***"


class HiddenQueries(SpanProcessor):
    """Tells that a request had a query, and nothing of it."""

    def on_start(self, span: Span, parent_context: Context | None = None) -> None:
        """Star out what FastAPI has read from the URL."""
        if _QUERY in (span.attributes or {}):
            span.set_attribute(_QUERY, _HIDDEN)
