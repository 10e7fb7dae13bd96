"""The parts of the contract that a running server shows."""

from collections.abc import Iterator
from pathlib import Path

from tests.cog_adapt.waiting import wait_for
from tests.contract_snapshot.answers import bodies, headers
from tests.contract_snapshot.file_formats import files_below, migrations, safetensors, tables
from tests.contract_snapshot.metric_names import metric_names
from tests.contract_snapshot.openapi import openapi
from tests.contract_snapshot.requests import LEARN, ROWS, SAY, ask_cases, ask_routes, make_known
from tests.contract_snapshot.shipped_server import ShippedServer, shipped_server

_ASYNC = {"prefer": "respond-async"}
_LORA = SAY | {"examples": ROWS, "method": "lora", "rank": 1, "steps": 1}


def served() -> dict[str, list[str]]:
    """Return the facts that need a server, by part; it is started once."""
    with shipped_server() as server:
        ids = {"predictions": "known-prediction", "trainings": "known-training"}
        make_known(server, ids, b"")
        formats, adapter = _formats_of_adapters(server, ids)
        formats += _formats_of_states(server)
        cases = [*ask_cases(server)]
        routes = [*ask_routes(server, ids, adapter)]
        numbers = [*metric_names(server.ask("GET", "/metrics").text)]
        document = server.ask("GET", "/openapi.json").json()
        formats += [*_formats_of_folders(server.folder), *migrations()]
        return {
            "answer_headers": [*headers(server.asked)],
            "answer_bodies": [*bodies(server.asked)],
            "cases": cases,
            "file_formats": formats,
            "metrics": numbers,
            "openapi": [*openapi(document)],
            "routes": routes,
        }


def _formats_of_adapters(server: ShippedServer, ids: dict[str, str]) -> tuple[list[str], bytes]:
    """Make an adapter, and fetch it in each form; note its id among those of the routes."""
    ids["adapters"] = server.ask("POST", "/predictions", body={"input": _LORA}).json()["output"][
        "adapter"
    ]
    place = {"id": ids["adapters"]}
    route = "/adapters/{id}/download"
    content = server.ask("GET", route, place).content
    return [*safetensors("adapter", content)], content


def _formats_of_states(server: ShippedServer) -> list[str]:
    """Let a training run until it has left a state for a later start, read that, and cancel it."""
    inputs = LEARN | {"steps": 100_000, "batch_size": 1, "seed": 1}
    body = {"id": "long", "input": inputs}
    server.ask("POST", "/trainings", body=body, headers=_ASYNC)
    folder = server.folder / "weights"
    path: Path = wait_for(lambda: next(folder.glob("checkpoints/*.safetensors"), None), 60.0)
    lines = [*safetensors("state", path.read_bytes())]
    for name in ("waiting", "one-more"):  # MAX_QUEUE is 1
        server.ask("POST", "/trainings", body={"id": name, "input": inputs}, headers=_ASYNC)
    server.ask("POST", "/trainings/{id}/cancel", {"id": "waiting"})
    server.ask("POST", "/trainings/{id}/cancel", {"id": "long"})
    server.wait_for_end("/trainings/long")
    return lines


def _formats_of_folders(folder: Path) -> Iterator[str]:
    for name in ("weights", ".data"):
        yield from (f"{name} {line}" for line in files_below(folder / name))
    yield from tables(folder / ".data" / "records.db")
