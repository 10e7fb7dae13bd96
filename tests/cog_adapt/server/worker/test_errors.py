"""How failures are told: in coglet's words."""

import asyncio
from pathlib import Path

import pytest
from cog import CancelationException

from cog_adapt.runner.errors import InputError as RunnersInputError
from cog_adapt.server.errors import InputError
from cog_adapt.server.protocol import Run
from cog_adapt.server.worker import errors
from cog_adapt.server.worker.active import ActivePrediction
from cog_adapt.server.worker.errors import (
    Outcome,
    RunError,
    calling_user,
    encoding_output,
    failure,
    is_callers,
    reading_inputs,
)
from cog_adapt.server.worker.outputs import NumberError
from cog_adapt.server.worker.uploads import UploadError


@pytest.fixture
def logs():
    return []


@pytest.fixture
def active(logs):
    return ActivePrediction(Run("p", b"{}", {}), logs.append)


def test_a_failure_of_a_stage_keeps_its_words_and_any_other_is_described():
    assert failure(RunError("said already")) == Outcome("failed", False, "said already")
    assert failure(ValueError("x")) == Outcome("failed", False, "Prediction failed: ValueError: x")


@pytest.mark.parametrize(
    "error", [InputError("x"), OSError("x"), UnicodeEncodeError("utf-8", "a", 0, 1, "x")]
)
def test_an_input_that_cannot_be_read_is_a_validation_error(error):
    with pytest.raises(RunError) as caught, reading_inputs():
        raise error
    assert str(caught.value) == f"Input validation error: {error}"
    assert caught.value.__cause__ is error


@pytest.mark.parametrize("error", [CancelationException(), KeyError("x"), ValueError("x")])
def test_other_errors_pass_the_reading_of_inputs(error):
    with pytest.raises(type(error)) as caught, reading_inputs():
        raise error
    assert caught.value is error


class Marked(ValueError):
    caller_error = True


@pytest.mark.parametrize(
    "kind", [Marked, InputError, type("Sub", (Marked,), {}), RunnersInputError]
)
def test_of_a_callers_mistake_the_logs_have_the_message_and_the_servers_log_the_rest(
    active, logs, capsys, kind
):
    with pytest.raises(RunError) as caught, calling_user("Prediction failed", active):
        raise kind("rank is 9; allowed: 1 to 8.")
    said = f"{kind.__name__}: rank is 9; allowed: 1 to 8."
    assert str(caught.value) == f"Prediction failed: Prediction failed: {said}"
    assert [(log.source, log.data) for log in logs] == [("stderr", f"{said}\n")]
    told = capsys.readouterr().err
    assert told.startswith("prediction p fails by a mistake of its caller:\nTraceback (most recent")
    assert __file__ in told


@pytest.mark.parametrize("mark", [False, None, 1, "yes"])
def test_only_the_class_can_say_that_a_mistake_is_the_callers(mark):
    error = type("Other", (ValueError,), {"caller_error": mark})()
    assert not is_callers(error)
    error.caller_error = True
    assert not is_callers(error)
    assert is_callers(Marked())


def test_only_the_end_of_the_run_passes(active, logs):
    with pytest.raises(CancelationException), calling_user("x", active):
        raise CancelationException
    with pytest.raises(asyncio.CancelledError), calling_user("x", active, asyncio.CancelledError):
        raise asyncio.CancelledError
    with pytest.raises(RunError), calling_user("x", active, asyncio.CancelledError):
        raise CancelationException
    assert len(logs) == 1


def fail():
    raise ValueError("boom")


@pytest.mark.parametrize(("called", "first"), [(fail, "test_errors.py"), (None, "sync_runs.py")])
def test_the_traceback_begins_at_the_users_code_if_there_is_any(active, logs, called, first):
    source = "def enter(called):\n  with calling_user('x', active):\n    called()\n"
    names = {"calling_user": calling_user, "active": active}
    own_file = Path(errors.__file__).with_name("sync_runs.py")
    exec(compile(source, own_file, "exec"), names)
    with pytest.raises(RunError):
        names["enter"](called)
    lines = logs[0].data.splitlines()
    assert lines[0] == "Traceback (most recent call last):"
    assert f'{first}", line' in lines[1]


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (NumberError("nan"), "Prediction failed: Failed to parse output JSON: nan"),
        (UploadError("status 500"), "Failed to upload output: status 500"),
        (OSError("gone"), "Prediction failed: Failed to process output: OSError: gone"),
        (TypeError("x"), "Prediction failed: Failed to serialize output item: TypeError: x"),
        (ValueError("x"), "Prediction failed: Failed to serialize output item: ValueError: x"),
    ],
)
def test_an_output_that_is_none_is_told_by_what_went_wrong(error, reason):
    with pytest.raises(RunError) as caught, encoding_output("output item"):
        raise error
    assert str(caught.value) == reason


def test_a_cancel_passes_the_encoding_of_outputs():
    with pytest.raises(CancelationException), encoding_output("output"):
        raise CancelationException
