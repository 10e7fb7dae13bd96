"""`Interruption`, asked for at every bytecode of its own code."""

import itertools
import sys
import threading
import time
from typing import Any

import pytest
from cog import CancelationException

from cog_adapt.server.worker import cancellation
from cog_adapt.server.worker.cancellation import Interruption


def call_and_request(interruption, at):
    """Call through it, and ask for the end before its bytecode number `at`: (outcome, asked)."""
    count = 0
    go, done = threading.Lock(), threading.Lock()
    go.acquire()
    done.acquire()

    def ask():
        go.acquire()
        interruption.request()
        done.release()

    asking = threading.Thread(target=ask, daemon=True)
    asking.start()

    def trace(frame, event, _argument):
        nonlocal count
        if frame.f_code.co_filename != cancellation.__file__ or frame.f_code.co_name == "request":
            return None
        frame.f_trace_opcodes = True
        count += event == "opcode"
        if event == "opcode" and count == at:
            go.release()
            done.acquire()
        return trace

    before = sys.gettrace()  # that of a measurement of coverage
    try:
        sys.settrace(trace)
        outcome = interruption.call(lambda: "value")
    except CancelationException:
        outcome = "canceled"
    finally:
        sys.settrace(before)
    if count < at:
        go.release()
    asking.join()
    return outcome, count >= at


def test_wherever_the_end_is_asked_for_nothing_of_it_is_left_over():
    outcomes = set()
    for at in itertools.count(1):
        interruption = Interruption()
        outcome, was_asked = call_and_request(interruption, at)
        for _ in range(100):
            len("a")  # where an exception that is still to come would come
        if not was_asked:
            break
        outcomes.add(outcome)
        with pytest.raises(CancelationException):
            interruption.call(lambda: "value")
    assert outcomes == {"value", "canceled"}
    assert at > 50


def test_an_end_that_was_asked_for_before_calls_nothing():
    called: list[Any]
    interruption, called = Interruption(), []
    assert interruption.requested is False
    interruption.request()
    interruption.request()
    with pytest.raises(CancelationException):
        interruption.call(called.append, 1)
    assert interruption.requested is True
    assert called == []


def test_a_call_that_goes_on_is_interrupted_once():
    interruption, caught = Interruption(), []
    begun = threading.Event()

    def spin():
        try:
            begun.set()
            deadline = time.monotonic() + 10
            while time.monotonic() < deadline:
                pass
        except CancelationException:
            interruption.request()
            for _ in range(1000):
                len("a")
            caught.append("once")
            raise

    def ask():
        begun.wait(10)
        interruption.request()

    asking = threading.Thread(target=ask)
    asking.start()
    with pytest.raises(CancelationException):
        interruption.call(spin)
    asking.join()
    assert caught == ["once"]


def test_what_the_call_raises_is_raised():
    interruption = Interruption()
    with pytest.raises(ValueError, match="invalid literal"):
        interruption.call(int, "x")
    interruption.request()  # hits nobody
    for _ in range(100):
        len("a")
