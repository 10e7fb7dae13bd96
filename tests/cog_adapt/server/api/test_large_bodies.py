"""Large bodies are read as small ones are, in a process of their own."""

import asyncio
import json
import multiprocessing
import os
import signal
import subprocess
import sys
import time
from multiprocessing.connection import Connection

import msgspec
import pytest
from cog import Secret

from cog_adapt.server.api.body import RequestBody, fit_inputs, read_body
from cog_adapt.server.api.large_bodies import LargeBodies, ReadingJob
from cog_adapt.server.errors import JsonError, MediaTypeError, ShapeError
from cog_adapt.server.schema.openapi import openapi_schema
from cog_adapt.server.schema.problems import MOST_PROBLEMS
from cog_adapt.server.schema.validation import InputValidator
from tests.cog_adapt.server.service.test_worker_process import is_alive
from tests.cog_adapt.waiting import wait_until

JSON = "application/json"
NAME = "large bodies"


def predict(texts: list[str], key: Secret = None) -> str:
    return texts[0]


DOCUMENT = msgspec.json.encode(openapi_schema(predict))


@pytest.fixture(scope="module")
def bodies():
    reader = LargeBodies()
    yield reader
    reader.close()


def job(content, content_type=JSON, *, strict=False, document=DOCUMENT):
    return ReadingJob(len(content), content_type, strict, document, "Input", 2**20)


def process_of(bodies):
    """The one process that reads them; it is there after the first."""
    read(bodies, b"{}")
    (process,) = [each for each in multiprocessing.active_children() if each.name == NAME]
    return process


def read(bodies, content, *args, **options):
    asked = bodies.read(bytearray(content), job(content, *args, **options), "ann")
    return asyncio.run(asked)


def test_a_large_body_is_read_as_a_small_one_is(bodies):
    inputs = {"texts": ["é" * 1000] * 2_000, "key": "hidden"}
    content = json.dumps(
        {"id": "a", "input": inputs, "context": {"x": "y"}, "webhook_events_filter": ["start"]}
    ).encode()
    (found, checked), small = read(bodies, content), read_body(content, JSON, strict=False)
    for name in set(RequestBody.__struct_fields__) - {"input"}:
        assert getattr(found, name) == getattr(small, name)
    validator = InputValidator(json.loads(DOCUMENT), "Input", 2**20)
    assert checked == fit_inputs(validator, bytes(small.input))
    assert b"hidden" not in checked[1]
    assert found.has_input


def test_without_secrets_the_inputs_are_sent_once(bodies):
    _, (_, redacted, _) = read(bodies, json.dumps({"input": {"texts": ["a"] * 50_000}}).encode())
    assert redacted is None


def test_inputs_that_do_not_fit_come_back_as_problems(bodies):
    _, problems = read(bodies, json.dumps({"input": {"texts": [1] * 50_000}}).encode())
    assert len(problems) == MOST_PROBLEMS + 1


def test_before_setup_the_inputs_are_not_checked(bodies):
    assert read(bodies, b'{"input":{"texts":1}}', document=b"")[1] is None


@pytest.mark.parametrize(
    ("content", "content_type", "error"),
    [
        (b'{"input":', JSON, JsonError),
        (b'{"id":1}', JSON, ShapeError),
        (b"{}", "text/plain", MediaTypeError),
        (b'{"input":{"texts":["\\ud800"]}}', JSON, JsonError),
    ],
)
def test_what_cannot_be_read_is_refused_in_the_same_words(bodies, content, content_type, error):
    with pytest.raises(error) as here:
        fit_inputs(
            InputValidator(json.loads(DOCUMENT), "Input", 9),
            bytes(read_body(content, content_type, strict=False).input),
        )
    with pytest.raises(error) as there:
        read(bodies, content, content_type)
    assert str(there.value) == str(here.value)
    assert there.value.location == here.value.location


def test_a_body_of_more_values_than_memory_holds_is_refused_before_it_is_decoded(bodies):
    begun = time.monotonic()
    with pytest.raises(ShapeError, match="more than 10,000,000 commas and brackets"):
        read(bodies, b'{"input":{"texts":[' + b"[]," * 6_000_000 + b"1]}}")
    assert time.monotonic() - begun < 5


@pytest.mark.parametrize("field", ["id", "webhook", "context", "webhook_events_filter"])
def test_only_inputs_may_be_large(bodies, field):
    values = {"context": {"a": "b" * 100_000}, "webhook_events_filter": ["start"] * 20_000}
    content = json.dumps({field: values.get(field, "a" * 100_000)}).encode()
    with pytest.raises(ShapeError, match="The fields beside `input` take 1.*; at most 65,536"):
        read(bodies, content)


def test_after_the_process_has_died_the_next_body_gets_another(bodies):
    small = b'{"input":{"texts":["a"]}}'
    os.kill(process_of(bodies).pid, signal.SIGKILL)
    with pytest.raises(ShapeError, match="in the memory that is left"):
        read(bodies, small)
    assert read(bodies, small)[1]


def test_a_body_that_takes_too_long_is_refused_and_the_process_ended(bodies, monkeypatch):
    process = process_of(bodies)
    monkeypatch.setattr(Connection, "poll", lambda *_: False)  # as after the minute that it has
    with pytest.raises(ShapeError, match="within 60 s"):
        read(bodies, b'{"input":{"texts":["' + b"a" * 10_000_000 + b'"]}}')
    assert not process.is_alive()


SERVER = """
import os, signal
from tests.cog_adapt.server.api.test_large_bodies import LargeBodies, process_of
if __name__ == "__main__":
    print(process_of(LargeBodies()).pid, flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_the_process_ends_when_its_server_is_killed(tmp_path):
    (tmp_path / "server.py").write_text(SERVER)
    path = os.pathsep.join(filter(None, [os.getcwd(), os.environ.get("PYTHONPATH")]))
    server = subprocess.run(
        [sys.executable, tmp_path / "server.py"],
        env={**os.environ, "PYTHONPATH": path},
        stdout=subprocess.PIPE,
        check=False,
        timeout=60,
    )
    assert server.returncode == -signal.SIGKILL
    wait_until(lambda: not is_alive(int(server.stdout)))


def test_the_event_loop_goes_on_meanwhile(bodies):
    content = bytearray(b'{"input":{"texts":[' + b'"abcdefgh",' * 2_000_000 + b'"a"]}}')

    async def pauses():
        reading = asyncio.ensure_future(bodies.read(content, job(content), "ann"))
        longest, last = 0.0, time.monotonic()
        while not reading.done():
            await asyncio.sleep(0.001)
            longest, last = max(longest, time.monotonic() - last), time.monotonic()
        return longest, (await reading)[1]

    longest, checked = asyncio.run(pauses())
    assert len(checked[0]) == len(content) - len(b'{"input":}')
    assert longest < 0.1  # in this process: 0.4 s for 24 MB


def test_owners_take_turns_however_many_bodies_one_of_them_sends(bodies):
    content = b'{"input":{"texts":["a"]}}'
    ended = []

    async def send(owner):
        await bodies.read(bytearray(content), job(content), owner)
        ended.append(owner)

    async def scene():
        await asyncio.gather(*map(send, ["ann"] * 20 + ["bob"] * 3))

    asyncio.run(scene())
    assert ended[:7].count("bob") == 3
