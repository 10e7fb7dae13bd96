"""Hides the query of each request in its span: it may hold a secret."""

from opentelemetry.context import Context
from opentelemetry.sdk.trace import Span, SpanProcessor

_QUERY, _HIDDEN = "url.query", "***"


class HiddenQueries(SpanProcessor):
    """Records that a request had a query, but not its text."""

    def on_start(self, span: Span, parent_context: Context | None = None) -> None:
        """Redact the query that FastAPI has read from the URL."""
        if _QUERY in (span.attributes or {}):
            span.set_attribute(_QUERY, _HIDDEN)
