"""One real server with four small tiers, beside the simulation of the same requests.

The server is the template's own, over HTTP. For each number of adapters it gets requests drawn by
Zipf's law, one after the other from a few callers; the simulation gets the same ones, in order. The
gauges of `/metrics` say where adapters were found.
"""

import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import httpx2
import numpy as np
import torch

from bench.fleet.measured import milliseconds, way
from bench.fleet.popularity import drawn, zipf
from bench.fleet.tiers import Budgets, Found, Tiers
from cog_adapt.runner.modules.adapters import Adapter, load_adapter
from cog_adapt.server.command.local_server import LocalClient, local_server
from gradient_check.phases.lora import LORA_A, LORA_B
from gradient_check.phases.replicas import freeze, make_template, serving_replica
from task import TextClassification

COUNTS = (8, 32, 128, 512, 1024)
BUDGETS = Budgets(device=16, memory=64, disk=256)
RANK = 8
_EXAMPLES = [
    {"text": "where is the box", "label": "parcel"},
    {"text": "late again", "label": "parcel"},
    {"text": "refund me", "label": "money"},
    {"text": "I paid twice", "label": "money"},
]
_REPORT_SECONDS = 3.0  # the worker reports its gauges every second or so
_GAUGES = ("device_misses", "memory_misses", "disk_misses")


@dataclass(frozen=True)
class Load:
    """What one number of adapters is asked.

    Attributes:
        warm: requests before those that count.
        requests: that count.
        callers: at once.
    """

    warm: int = 400
    requests: int = 600
    callers: int = 1


@dataclass(frozen=True)
class Rates:
    """The shares of the requests whose adapter was ready, in memory, on disk or in the store."""

    ready: float
    memory: float
    disk: float
    store: float


@dataclass(frozen=True)
class Checked:
    """One number of adapters, measured and simulated.

    Attributes:
        a_second: answers that were measured; `simulated_a_second` is what follows from the first
            row's and the time of each part that a request of this row has more.
    """

    adapters: int
    measured: Rates
    simulated: Rates
    a_second: float
    simulated_a_second: float = 0.0


def check(counts: Sequence[int] = COUNTS, load: Load = Load()) -> list[Checked]:
    """Measure one server, and simulate it."""
    with _server() as (client, http, folder):
        ids = _stored(client, folder, max(counts))
        tiers = Tiers(BUDGETS, range(len(ids)))  # stored in this order, so the last ones are near
        rows = [_checked(http, ids, tiers, count, load) for count in counts]
    parts = own_times()
    first = 1 / rows[0].a_second - parts.more(rows[0].simulated)
    return [
        replace(each, simulated_a_second=1 / (first + parts.more(each.simulated))) for each in rows
    ]


@dataclass(frozen=True)
class OwnTimes:
    """Seconds of this machine: to make a module, to read and check a file, to read the store."""

    ready: float
    disk: float
    store: float

    def more(self, rates: Rates) -> float:
        """Return the seconds that a request takes more than one whose adapter is ready."""
        disk, store = (1 - rates.memory) * self.disk, rates.store * self.store
        return (1 - rates.ready) * self.ready + disk + store


def own_times() -> OwnTimes:
    """Measure the parts in this process, with the packaged model."""
    base = TextClassification().load()
    freeze(base)
    template = make_template(base)
    tensors = {
        name: tensor for name, tensor in _tensors().items() if LORA_A in name or LORA_B in name
    }
    made, read = way("300 KB", 9), milliseconds(lambda: serving_replica(template, tensors), 9)
    return OwnTimes(read / 1e3, (made.read + made.decode) / 1e3, made.store / 1e3)


@contextmanager
def _server() -> Iterator[tuple[LocalClient, httpx2.Client, Path]]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        size = _size_of_one()
        variables = {
            "WEIGHTS_DIR": str(folder / "weights"),
            "ADAPTER_STORE": f"file://{folder}/store",
            "SERVED_ADAPTERS": str(BUDGETS.device),
            "ADAPTER_MEMORY_BYTES": str(BUDGETS.memory * size.tensors + size.tensors // 2),
            "ADAPTER_DISK_BYTES": str(BUDGETS.disk * size.file + size.file // 2),
            "OWNER_SHARE": "1",
            "SELF_TEST": "off",
        }
        with local_server("predict", variables) as client, _client(client) as http:
            client.wait_until_ready()
            yield client, http, folder


def _client(server: LocalClient) -> httpx2.Client:
    headers = {"Authorization": f"Bearer {server.key}"}
    return httpx2.Client(base_url=server.url, headers=headers, timeout=300.0)


@dataclass(frozen=True)
class _Size:
    """Bytes of one adapter of MiniLM with two labels: of its tensors, and of its file."""

    tensors: int
    file: int


def _size_of_one() -> _Size:
    adapter = Adapter(_tensors(), ("parcel", "money"), "lora", "0" * 16)
    return _Size(adapter.nbytes, len(adapter.to_bytes()))


def _tensors() -> dict[str, torch.Tensor]:
    """Return queries' and values' pairs in six layers of 384, and a head of two labels."""
    layers = [
        f"encoder.encoder.layer.{layer}.attention.self.{part}"
        for layer in range(6)
        for part in ("query", "value")
    ]
    tensors = {f"{layer}.lora_a": torch.zeros(RANK, 384) for layer in layers}
    tensors |= {f"{layer}.lora_b": torch.zeros(384, RANK) for layer in layers}
    return tensors | {"head.weight": torch.zeros(2, 384), "head.bias": torch.zeros(2)}


def _stored(client: LocalClient, folder: Path, count: int) -> list[str]:
    """Store adapters that differ in all tensors; return their ids, the first stored one first."""
    run = client.predict(
        {"text": "late", "examples": _EXAMPLES, "method": "lora", "rank": RANK, "steps": 1}
    )
    made = load_adapter(client.adapters.download(run.output["adapter"], folder))
    client.adapters.remove(run.output["adapter"])
    draw = torch.Generator().manual_seed(0)
    path, ids = folder / "sent.safetensors", []
    for _ in range(count):
        tensors = {
            name: tensor + 0.01 * torch.randn(tensor.shape, generator=draw)
            for name, tensor in made.tensors.items()
        }
        path.write_bytes(replace(made, tensors=tensors).to_bytes())
        ids.append(str(client.adapters.upload(path)["id"]))
    return ids


def _checked(
    http: httpx2.Client, ids: Sequence[str], tiers: Tiers, count: int, load: Load
) -> Checked:
    random = np.random.default_rng(count)
    adapters = drawn(zipf(count, 1.0), load.warm + load.requests, random).tolist()
    warm, counted = adapters[: load.warm], adapters[load.warm :]
    _ask(http, [ids[each] for each in warm], load.callers)
    before, began = _misses(http), time.perf_counter()
    _ask(http, [ids[each] for each in counted], load.callers)
    seconds, after = time.perf_counter() - began, _misses(http)
    for each in warm:
        tiers.look_up(each)
    found = [tiers.look_up(each) for each in counted]
    device, memory, disk = ((after[name] - before[name]) / len(counted) for name in _GAUGES)
    return Checked(
        adapters=count,
        measured=Rates(1 - device, 1 - memory, memory - disk, disk),
        simulated=_rates(found),
        a_second=len(counted) / seconds,
    )


def _rates(found: Sequence[Found]) -> Rates:
    ready = sum(each.ready for each in found) / len(found)
    places = Counter(each.place for each in found)
    memory, disk, store = (places[name] / len(found) for name in ("memory", "disk", "store"))
    return Rates(ready, memory, disk, store)


def _ask(http: httpx2.Client, ids: Sequence[str], callers: int) -> None:
    def ask(number_and_id: tuple[int, str]) -> None:
        number, adapter = number_and_id
        text = f"Where is parcel {number}?"
        answer = http.post("/predictions", json={"input": {"text": text, "adapter": adapter}})
        if answer.json().get("status") != "succeeded":
            raise RuntimeError(f"a prediction has not succeeded: {answer.text[:500]}")

    with ThreadPoolExecutor(callers) as threads:
        list(threads.map(ask, enumerate(ids)))


def _misses(http: httpx2.Client) -> Mapping[str, float]:
    """Read the misses of each tier from `/metrics`."""
    found: dict[str, float] = {}
    time.sleep(_REPORT_SECONDS)
    lines = http.get("/metrics").raise_for_status().text.splitlines()
    values = (line.rpartition(" ") for line in lines if not line.startswith("#"))
    for name, _, value in values:
        found[name.partition("{")[0].rpartition("adapters_")[2]] = float(value)
    return found
