"""A door that streams `Task.generate`: live pieces, cancels between two, a place for the report."""

import pytest

from cog_adapt import write_schema
from tests.cog_adapt.contract.serving import serving
from tests.cog_adapt.waiting import assert_stays, wait_for, wait_until

DOOR = """
import time
from dataclasses import dataclass
from pathlib import Path

from cog import AsyncConcatenateIterator, BaseRunner, Input, streaming

from cog_adapt import ModelRunner, Recipe, Request, RunnerSettings, stream
from tests.cog_adapt.models import Letters


@dataclass(frozen=True)
class Length:
    pieces: int = 3


class Spelling(Letters):
    options = Length()

    def generate(self, module, batch, options):
        for number in range(options.pieces):
            with Path("made").open("a") as made:
                made.write(".")
            time.sleep(0.005)
            yield f"{number} "


class Predictor(BaseRunner):
    def setup(self) -> None:
        self.runner = ModelRunner(Spelling(), RunnerSettings.from_environment())

    @streaming
    async def run(
        self,
        prompt: str = Input(default="ab"),
        examples: str | list[dict] = Input(default=""),
        pieces: int = Input(default=3, ge=1, le=100000),
    ) -> AsyncConcatenateIterator[str]:
        labels = () if examples else ("low", "high")
        recipe = Recipe("head", max_steps=2)
        request = Request([prompt], labels, examples, recipe=recipe, options=Length(pieces))
        async for piece in stream(self.runner, request, self.scope):
            yield piece
"""
DOOR_CLASS = "door.py:Predictor"
ROWS = [{"text": "aa", "label": "low"}, {"text": "yy", "label": "high"}]


@pytest.fixture(scope="module", params=["coglet", "mirror"])
def server(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("streams")
    (folder / "door.py").write_text(DOOR)
    env = {"DEVICE": "cpu", "WEIGHTS_DIR": str(folder / "weights")}
    if request.param == "coglet":
        write_schema(folder, predict=DOOR_CLASS)
    with serving(request.param, folder, predict=DOOR_CLASS, env=env, schema=False) as running:
        yield running


def test_the_metrics_hold_the_adapter_and_the_report_of_a_streamed_answer(server):
    body = server.predict(examples=ROWS)
    assert "".join(body["output"]) == "0 1 2 "
    told = body["metrics"]["adaptation"]
    assert told["report"]["steps"] == told["step"] == 2
    stored = server.folder / "weights" / "adapters" / f"{told['adapter']}.safetensors"
    assert stored.exists()


def finished(server, name):
    record = server.get(f"/predictions/{name}").json()
    return None if record["status"] in ("starting", "processing") else record


def test_the_record_holds_them_too(server):
    if server.is_coglet:
        pytest.skip("Cog's server keeps no records")
    name = server.start(examples=ROWS)
    record = wait_for(lambda: finished(server, name))
    assert record["status"] == "succeeded", record
    assert record["metrics"]["adaptation"]["report"]["method"] == "head"
    assert record["metrics"]["adaptation"]["adapter"]


def test_a_stream_has_its_pieces_in_order(server):
    events = server.stream("/predictions", {"input": {"pieces": 5}})
    pieces = [event.data["chunk"] for event in events if event.event == "output"]
    assert pieces == ["0 ", "1 ", "2 ", "3 ", "4 "]


def test_a_cancel_between_two_pieces_ends_the_work(server):
    made = server.folder / "made"
    before = made.stat().st_size if made.exists() else 0
    name = server.start(pieces=100_000)
    wait_until(lambda: made.exists() and made.stat().st_size > before + 2)
    server.cancel(name)
    assert server.output(pieces=1) == ["0 "]
    after = made.stat().st_size
    assert_stays(lambda: made.stat().st_size == after, 0.1)
