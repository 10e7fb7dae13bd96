"""LitServe as its documentation shows it, one worker.

Run by its own environment's Python: `python litserve_noop.py PORT`.
"""

import sys
from collections.abc import Iterator
from typing import Any

import litserve  # type: ignore[import-not-found]


class Predict(litserve.LitAPI):  # type: ignore[misc]
    """The no-op."""

    def setup(self, device: str) -> None:
        """Load nothing."""

    def decode_request(self, request: dict[str, Any]) -> str:
        """Take the text."""
        text: str = request["input"]["text"]
        return text

    def predict(self, x: str) -> str:
        """Return the input."""
        return x

    def encode_response(self, output: str) -> dict[str, Any]:
        """Wrap it."""
        return {"output": output}


class Stream(litserve.LitAPI):  # type: ignore[misc]
    """Many items."""

    def setup(self, device: str) -> None:
        """Load nothing."""

    def decode_request(self, request: dict[str, Any]) -> int:
        """Take the count."""
        count: int = request["input"]["count"]
        return count

    def predict(self, x: int) -> Iterator[str]:
        """Count."""
        for number in range(x):
            yield f"item {number}"

    def encode_response(self, output: Iterator[str]) -> Any:  # noqa: ANN401 - FastAPI reads it
        """Wrap each as a server-sent event."""
        for item in output:
            yield f"data: {item}\n\n"


if __name__ == "__main__":
    apis = [Predict(api_path="/predictions"), Stream(api_path="/stream", stream=True)]
    server = litserve.LitServer(apis, accelerator="cpu", timeout=60)
    server.run(
        host="127.0.0.1", port=int(sys.argv[1]), generate_client_file=False, log_level="warning"
    )
