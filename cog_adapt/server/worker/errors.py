"""The ends of a run, and coglet's words for a failure."""

import contextlib
import contextvars
import sys
import traceback
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from cog import CancelationException

from cog_adapt.server.errors import InputError
from cog_adapt.server.protocol import Status
from cog_adapt.server.worker.active import NO_PREDICTION, ActivePrediction, current
from cog_adapt.server.worker.lines import encodable
from cog_adapt.server.worker.outputs import NumberError
from cog_adapt.server.worker.uploads import UploadError

_OWN = str(Path(__file__).parent)
_PACKAGE = Path(__file__).parents[2]
_PACKAGES = (f"{_PACKAGE}/", f"{_PACKAGE.with_name('gradient_check')}/", "<frozen importlib")


class RunError(Exception):
    """A run has failed; the message is the prediction's `error`."""


@dataclass(frozen=True)
class Outcome:
    """The end of a run."""

    status: Status
    is_list: bool = False
    error: str | None = None


def failure(error: BaseException) -> Outcome:
    """Return the outcome for a failure in any of the stages below."""
    if isinstance(error, RunError):
        return Outcome("failed", error=str(error))
    return Outcome("failed", error=f"Prediction failed: {describe_error(error)}")


@contextlib.contextmanager
def reading_inputs() -> Iterator[None]:
    """Surround the stage in which inputs are read and fetched."""
    try:
        yield
    except (InputError, OSError, UnicodeError) as error:
        raise RunError(f"Input validation error: {error}") from error


@contextlib.contextmanager
def calling_user(
    stage: str, active: ActivePrediction, end: type[BaseException] = CancelationException
) -> Iterator[None]:
    """Surround the user's code; write a traceback to the prediction's logs.

    The traceback of a caller's mistake goes to the server's own log, because a caller cannot use
    the code and the paths in a traceback.

    Args:
        stage: the name of a failure.
        active: the prediction.
        end: the exception that passes through, because it ends a cancelled run.

    Raises:
        RunError: the user's code raised anything other than `end`, SystemExit included.
    """
    try:
        yield
    except end:
        raise
    except BaseException as error:
        if is_callers(error):
            _tell_operator(error, active)
        else:
            active.lines.write("stderr", _traceback_of(error))
        raise RunError(f"Prediction failed: {stage}: {describe_error(error)}") from error


@contextlib.contextmanager
def encoding_output(what: str) -> Iterator[None]:
    """Surround the stage in which an output becomes JSON."""
    try:
        yield
    except NumberError as error:
        raise RunError(f"Prediction failed: Failed to parse output JSON: {error}") from error
    except UploadError as error:
        raise RunError(f"Failed to upload output: {error}") from error
    except OSError as error:
        raise RunError(
            f"Prediction failed: Failed to process output: {describe_error(error)}"
        ) from error
    except Exception as error:
        raise RunError(
            f"Prediction failed: Failed to serialize {what}: {describe_error(error)}"
        ) from error


def describe_error(error: BaseException) -> str:
    """Return class and message in coglet's words, even if the user's exception breaks `str()`."""
    try:
        message = str(error)
    except Exception:  # noqa: BLE001 - the user's code may raise anything
        message = "<exception str() failed>"
    return encodable(f"{type(error).__qualname__}: {message}")


def is_callers(error: BaseException) -> bool:
    """Return whether an error's class blames the caller (docs/predictor-protocol.md)."""
    return getattr(type(error), "caller_error", False) is True


def setup_traceback(error: BaseException) -> str:
    """Return the traceback of a failed setup, with the frames of the user's code.

    The packages' own frames are left out if the user's code raised the error, or if the error is
    one of the packages' own, whose message says what to do. Else the packages may have a fault.
    """
    shown = traceback.TracebackException.from_exception(error)
    part: traceback.TracebackException | None = shown
    while part is not None:
        users = [frame for frame in part.stack if not frame.filename.startswith(_PACKAGES)]
        is_clear = part.stack[-1:] == users[-1:] or _is_of_packages(part)
        if users and is_clear:
            part.stack = traceback.StackSummary.from_list(users)
        part = part.__cause__ or part.__context__
    return "".join(shown.format())


def _is_of_packages(shown: traceback.TracebackException) -> bool:
    return shown.exc_type.__module__.partition(".")[0] in ("cog_adapt", "gradient_check")


def _tell_operator(error: BaseException, active: ActivePrediction) -> None:
    """Write the message to the prediction's logs, the traceback to the server's own log."""
    active.lines.write("stderr", f"{describe_error(error)}\n")
    head = f"prediction {active.request.shown_id} fails by a mistake of its caller:\n"
    text = head + _traceback_of(error)
    context = contextvars.copy_context()
    context.run(current.set, NO_PREDICTION)
    context.run(sys.stderr.write, text)


def _traceback_of(error: BaseException) -> str:
    """Return the traceback without the frames of this package at its top."""
    trace = error.__traceback__
    while trace and trace.tb_frame.f_code.co_filename.startswith(_OWN) and trace.tb_next:
        trace = trace.tb_next
    return "".join(traceback.format_exception(error.with_traceback(trace)))
