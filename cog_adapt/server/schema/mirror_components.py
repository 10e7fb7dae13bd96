"""The schemas of what the mirror reads and answers beyond Cog's.

Their names have a dot, which no input of a predictor can have: an input with choices is a component
too.
"""

from cog_adapt.server.schema.document import Endpoint, reference
from cog_adapt.server.schema.types import Schema

PREFIX = "Mirror"
ERROR, PAGE, RUN = f"{PREFIX}.Error", f"{PREFIX}.Page", f"{PREFIX}.Run"
DELIVERY, DELIVERIES = f"{PREFIX}.Delivery", f"{PREFIX}.Deliveries"
EVENT, HEALTH, ALIVE, NOTHING = (
    f"{PREFIX}.Event",
    f"{PREFIX}.Readiness",
    f"{PREFIX}.Liveness",
    f"{PREFIX}.Nothing",
)
ID_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9._~-]{0,127}$"
DURATION = r"([1-9][0-9]{0,5}(?:\.[0-9]{1,3})?|0\.0{0,2}[1-9][0-9]{0,2})(ms|s|m|h)?"
_EVENTS = ["start", "output", "logs", "completed"]

TEXT: Schema = {"type": "string"}
OBJECT: Schema = {"type": "object"}
_MAYBE: Schema = {"nullable": True}
_TIME: Schema = {"type": "string", "format": "date-time"}
_ID: Schema = {
    "type": "string",
    "pattern": ID_PATTERN,
    "description": "1 to 128 letters, digits and . _ ~ -, beginning with a letter or digit.",
}


def id_parameter(endpoint: Endpoint) -> Schema:
    """The id in a path."""
    return {"name": f"{endpoint.noun}_id", "in": "path", "required": True, "schema": _ID}


def post_component(endpoint: Endpoint) -> str:
    """The component of the body of a POST."""
    return f"{PREFIX}.{endpoint.request}"


def put_component(endpoint: Endpoint) -> str:
    """The component of the body of a PUT: its id is in the path."""
    return f"{PREFIX}.{endpoint.noun.title()}OfId"


def request_components(endpoint: Endpoint, *, needs_input: bool) -> Schema:
    """The bodies that start something."""
    inputs = {"allOf": [reference(endpoint.input)]} | ({} if needs_input else _MAYBE)
    body: Schema = {
        "type": "object",
        "properties": {"input": inputs} | _REQUEST,
    } | ({"required": ["input"]} if needs_input else {})
    with_id = body | {"properties": {"id": _ID | _MAYBE} | body["properties"]}
    return {put_component(endpoint): body, post_component(endpoint): with_id}


_REQUEST: Schema = {
    "webhook": TEXT | _MAYBE | {"format": "uri", "description": "Events are posted there."},
    "webhook_events_filter": {
        "type": "array",
        "items": {"type": "string", "enum": _EVENTS},
        "description": "Which events; all without it, none if it is empty.",
    },
    "context": {
        "type": "object",
        "additionalProperties": TEXT,
        "description": "Strings that run() can look at.",
    },
    "retries": {
        "type": "integer",
        "minimum": 0,
        "maximum": 10,
        "default": 0,
        "description": "How often to run again what a crash cut short; at most 10.",
    },
}


def _object(required: str, **properties: Schema) -> Schema:
    return {"type": "object", "properties": properties, "required": required.split()}


def _list_of(component: str) -> Schema:
    return {"type": "array", "items": reference(component)}


STREAM: Schema = {"content": {"text/event-stream": {"schema": reference(EVENT)}}}
COMPONENTS: Schema = {
    ERROR: _object("error", error=TEXT, status={"type": "string", "enum": ["failed"]}),
    NOTHING: {"type": "object", "additionalProperties": False},
    RUN: _object(
        "id status",
        id=TEXT,
        status=reference("Status"),
        input=OBJECT | {"description": "Secrets are starred out."},
        output={"description": "So far, or at the end; null without any."},
        error=TEXT,
        logs=TEXT,
        metrics=OBJECT,
        created_at=_TIME,
        started_at=_TIME,
        completed_at=_TIME,
        queue_position={"type": "integer", "minimum": 1},
    ),
    PAGE: _object("results next", results=_list_of(RUN), next=TEXT | _MAYBE),
    DELIVERY: _object(
        "id event url state attempts created_at",
        id=TEXT,
        event={"type": "string", "enum": _EVENTS},
        url=TEXT,
        state={"type": "string", "enum": ["pending", "delivered", "failed"]},
        attempts={"type": "integer", "minimum": 0},
        last_status={"type": "integer"} | _MAYBE,
        last_error=TEXT | _MAYBE,
        created_at=_TIME,
        delivered_at=_TIME | _MAYBE,
    ),
    EVENT: _object("event data", event=TEXT, id=TEXT, data=TEXT)
    | {"description": "One event of a stream; its data is JSON."},
    DELIVERIES: _object("results", results=_list_of(DELIVERY)),
    ALIVE: _object("alive", alive={"type": "boolean"}),
    HEALTH: _object(
        "ready status",
        ready={"type": "boolean"},
        status=TEXT,
        user_healthcheck_error=TEXT,
        self_test=TEXT,
        records=TEXT,
    ),
}
