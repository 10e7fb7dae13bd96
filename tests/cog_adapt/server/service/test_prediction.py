"""What is known of a prediction in flight, and how it looks to its client."""

import asyncio

import msgspec

from cog_adapt.server.protocol import Finished
from cog_adapt.server.service.prediction import (
    Prediction,
    PredictionSpec,
    digest_of,
    encode,
)


def seen(body):
    return msgspec.json.decode(encode(body))


def on_loop(test):
    """A prediction lives on an event loop."""

    def run():
        async def inside():
            request = PredictionSpec("p1", "predict", b'{"key":"s"}', b'{"key":"***"}', retries=2)
            test(Prediction(request, history=100))

        asyncio.run(inside())

    run.__name__ = test.__name__
    return run


def finish(prediction, status="succeeded", **more):
    prediction.finish(Finished("p1", status, **more))


@on_loop
def test_while_it_runs_the_output_is_the_list_so_far_and_secrets_are_starred_out(prediction):
    prediction.start()
    assert "output" not in prediction.progress()
    prediction.add_output(b'"x"')
    assert seen(prediction.progress()) == {
        "id": "p1",
        "input": {"key": "***"},
        "logs": "",
        "metrics": {},
        "output": ["x"],
        "status": "processing",
    }


def record(*metrics):
    found = {}

    @on_loop
    def collect(prediction):
        for name, value, mode in metrics:
            prediction.add_metric(name, value, mode)
        found.update(prediction.metrics)

    collect()
    return found


@on_loop
def test_what_a_crash_cut_short_begins_again_with_nothing(prediction):
    prediction.start()
    prediction.add_log("stdout", "a")
    prediction.add_output(b"1")
    prediction.add_metric("m", b"1", "replace")
    prediction.begin_again()
    assert (prediction.status, prediction.started_at, prediction.retries_left) == (
        "starting",
        None,
        1,
    )
    assert seen(prediction.account()) == {
        "id": "p1",
        "status": "starting",
        "logs": "",
        "metrics": {},
    }


@on_loop
def test_its_close_lets_everybody_go_on_once(prediction):
    assert (prediction.done.done(), prediction.events.is_closed) == (False, False)
    for _ in range(2):
        prediction.close()
        assert prediction.done.result() is None
        assert prediction.events.is_closed


def test_the_digest_is_sha_256_in_hex():
    assert digest_of(b"{}") == "44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a"
