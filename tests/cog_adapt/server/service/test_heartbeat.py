"""A worker that says nothing, or whose model thread ends no tick, hangs."""

import asyncio
import time
from typing import Any

import pytest

from cog_adapt.server.protocol import Beat
from cog_adapt.server.service.heartbeat import HeartbeatWatch
from tests.cog_adapt.waiting import assert_stays_so, until


class Watched:
    def __init__(self, seconds):
        self.signs = 0
        self.causes: list[Any] = []
        self.watch = HeartbeatWatch(seconds, lambda: self.signs, self.causes.append)


def play(scene, seconds=0.1):
    async def story():
        watched = Watched(seconds)
        try:
            await asyncio.wait_for(scene(watched), 20)
        finally:
            watched.watch.close()

    asyncio.run(story())


def test_silence_is_a_hang_after_the_seconds():
    async def scene(watched):
        watched.watch.end_setup()
        began = time.monotonic()
        await until(lambda: watched.causes)
        assert time.monotonic() - began >= 0.09
        assert watched.causes == [
            "hung: it sent no heartbeat for 0.1 s (HANG_SECONDS), and was killed"
        ]

    play(scene)


def test_during_setup_it_takes_ten_times_as_long():
    async def scene(watched):
        began = time.monotonic()
        await until(lambda: watched.causes)
        assert time.monotonic() - began >= 0.9
        assert "for 1 s" in watched.causes[0]

    play(scene)


def test_whoever_speaks_does_not_hang():
    async def scene(watched):
        watched.watch.end_setup()

        def speaks():
            watched.signs += 1
            return not watched.causes

        await assert_stays_so(speaks, 0.3)
        await until(lambda: watched.causes)

    play(scene)


def test_a_pause_of_the_front_process_itself_is_no_silence():
    async def scene(watched):
        watched.watch.end_setup()
        for _ in range(12):
            time.sleep(0.04)  # the loop stands still
            await asyncio.sleep(0)
        assert watched.causes == []

    play(scene)


@pytest.mark.parametrize(
    ("beat", "cause"),
    [
        (Beat(), None),
        (Beat(59.0), None),
        (Beat(100.0, 600.0), None),
        (
            Beat(61.0),
            "hung: its model thread ended no tick for 61 s, at most 60 s are allowed "
            "(HANG_SECONDS), and it was killed",
        ),
        (
            Beat(601.0, 600.0),
            "hung: its model thread ended no tick for 601 s, at most 600 s are allowed "
            "(it said), and it was killed",
        ),
    ],
)
def test_a_tick_may_take_the_seconds_or_what_it_said(beat, cause):
    async def scene(watched):
        watched.watch.on_beat(beat)
        assert watched.causes == [cause] * (cause is not None)

    play(scene, 60)


def test_it_may_be_switched_off():
    async def scene(watched):
        watched.watch.on_beat(Beat(1e9))
        await assert_stays_so(lambda: not watched.causes, 0.05)

    play(scene, 0)


@pytest.mark.parametrize("seconds", [0, 60])
def test_a_process_that_cannot_go_on_is_ended_with_its_cause(seconds):
    async def scene(watched):
        watched.watch.on_beat(Beat())
        assert watched.causes == []
        watched.watch.on_beat(Beat(fatal="the card fell off"))
        assert watched.causes == ["could not continue, and was ended: the card fell off"]

    play(scene, seconds)
