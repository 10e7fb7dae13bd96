"""mosec as its documentation shows it, one worker.

Run by its own environment's Python: `python mosec_noop.py --port PORT`.
"""

from typing import Any

from mosec import Runtime, Server, SSEWorker, Worker  # type: ignore[import-not-found]


class Predict(Worker):  # type: ignore[misc]
    """The no-op; mosec takes and gives JSON by default."""

    def forward(self, data: dict[str, Any]) -> dict[str, Any]:
        """Return the input."""
        return {"output": data["input"]["text"]}


class Stream(SSEWorker):  # type: ignore[misc]
    """Many items."""

    def forward(self, data: dict[str, Any]) -> dict[str, Any]:
        """Count."""
        for number in range(data["input"]["count"]):
            self.send_stream_event(f"item {number}")
        return {}


if __name__ == "__main__":
    server = Server()
    server.register_runtime({"/predictions": [Runtime(Predict)], "/stream": [Runtime(Stream)]})
    server.run()
