"""Plain FastAPI as its tutorial shows it: the floor under a server that does more."""

from collections.abc import Iterable
from typing import Any

from fastapi import FastAPI
from fastapi.sse import EventSourceResponse
from pydantic import BaseModel

app = FastAPI()


class Inputs(BaseModel):
    """The inputs of either endpoint."""

    text: str = ""
    count: int = 1


class Body(BaseModel):
    """The body of a request."""

    input: Inputs


@app.post("/predictions")
def predict(body: Body) -> dict[str, Any]:
    """Return the input."""
    return {"output": body.input.text}


@app.post("/stream", response_class=EventSourceResponse)
def stream(body: Body) -> Iterable[str]:
    """Count."""
    for number in range(body.input.count):
        yield f"item {number}"
