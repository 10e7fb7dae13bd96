"""`Interruption`, asked for at every bytecode of its own code."""

import itertools
import sys
import threading

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

    try:
        sys.settrace(trace)
        outcome = interruption.call(lambda: "value")
    except CancelationException:
        outcome = "canceled"
    finally:
        sys.settrace(None)
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
