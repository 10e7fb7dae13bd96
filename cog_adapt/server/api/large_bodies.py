"""Large bodies, read and checked in a process of their own.

Decoding 100 MB holds the interpreter's lock for seconds, on any thread: all other requests would
wait. So the server sends the bytes in pieces to a process that is started with the first large
body. A piece holds the lock only briefly, and the process returns the inputs as the model's JSON.
"""

import asyncio
import contextlib
import multiprocessing
import os
import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.connection import Connection
from typing import Any

import msgspec

from cog_adapt.server.api.body import Inputs, RequestBody, count_of, fit_inputs, read_body
from cog_adapt.server.errors import BodyError, JsonError, MediaTypeError, ShapeError
from cog_adapt.server.schema.problems import InvalidInputs, Problem
from cog_adapt.server.schema.validation import InputValidator
from cog_adapt.server.shares.turns import Share

LARGE_BYTES = 2**16
_MOST_VALUES = 10_000_000  # about 700 MB as Python objects
_PIECE = 2**20
_SECONDS = 60.0
_ERRORS: dict[str, type[BodyError]] = {
    error.__name__: error for error in (JsonError, MediaTypeError, ShapeError)
}


class ReadingJob(msgspec.Struct, frozen=True):
    """The description of a body to read.

    Attributes:
        size: of the body, in bytes.
        content_type: the header.
        strict: as in `read_body`.
        document: the OpenAPI document as JSON; empty if inputs cannot be checked yet.
        component: the document's component for the inputs.
        most_characters: of any one string.
    """

    size: int
    content_type: str | None
    strict: bool
    document: bytes
    component: str
    most_characters: int


class _Refusal(msgspec.Struct, frozen=True, tag=True):
    error: str
    reason: str
    location: tuple[str, ...]
    kind: str


class _Verdict(msgspec.Struct, frozen=True, tag=True):
    """The body without its inputs, which follow in pieces, or the fault of its inputs."""

    body: RequestBody
    problems: list[Problem]
    sizes: tuple[int, int] | None = None
    digest: str = ""


class LargeBodies:
    """The process, and the only thread that talks to it: one body at a time, owners in turn."""

    def __init__(self) -> None:
        self._turns = Share(1)
        self._thread = ThreadPoolExecutor(1, "large bodies")
        self._process: multiprocessing.process.BaseProcess | None = None
        self._connection: Connection[Any, Any] | None = None

    async def read(
        self, content: bytearray, job: ReadingJob, owner: str
    ) -> tuple[RequestBody, Inputs | list[Problem] | None]:
        """Read a body of an owner as `read_body` does, and check its inputs.

        Returns:
            the body, and its inputs or their fault; None if the inputs could not be checked.

        Raises:
            BodyError: the body cannot be read, or takes too long.
        """
        loop = asyncio.get_running_loop()
        async with self._turns.turn(owner):
            return await loop.run_in_executor(self._thread, self._ask, content, job)

    def close(self) -> None:
        """End the process."""
        self._thread.shutdown(wait=False, cancel_futures=True)
        self._end()

    def _ask(
        self, content: bytearray, job: ReadingJob
    ) -> tuple[RequestBody, Inputs | list[Problem] | None]:
        try:
            return self._answer(content, job)
        except (EOFError, OSError) as error:
            self._end()
            raise ShapeError(
                f"The body of {job.size:,} bytes could not be read within {_SECONDS:g} s, or in "
                "the memory that is left. Send less at once, or large texts as files."
            ) from error

    def _answer(
        self, content: bytearray, job: ReadingJob
    ) -> tuple[RequestBody, Inputs | list[Problem] | None]:
        connection = self._connected()
        connection.send_bytes(msgspec.msgpack.encode(job))
        with memoryview(content) as view:
            for start in range(0, len(view), _PIECE):
                connection.send_bytes(view[start : start + _PIECE])
        if not connection.poll(_SECONDS):
            raise TimeoutError
        answer: _Refusal | _Verdict = _verdicts.decode(connection.recv_bytes())
        if isinstance(answer, _Refusal):
            raise _ERRORS[answer.error](answer.reason, answer.location, answer.kind)
        if answer.sizes is None:
            return answer.body, answer.problems or None
        known, redacted = (_receive(connection, size) for size in answer.sizes)
        return answer.body, (known, redacted or None, answer.digest)

    def _connected(self) -> "Connection[Any, Any]":
        if self._connection is None:
            context = multiprocessing.get_context("spawn")
            ours, theirs = context.Pipe()
            self._connection = ours
            self._process = context.Process(
                target=serve, args=(theirs,), name="large bodies", daemon=True
            )
            self._process.start()
            theirs.close()
        return self._connection

    def _end(self) -> None:
        process, connection = self._process, self._connection
        self._process = self._connection = None
        if process is not None and connection is not None:
            process.kill()
            process.join()
            connection.close()


def _receive(connection: "Connection[Any, Any]", size: int) -> bytes:
    pieces: list[bytes] = []
    while size > 0:
        pieces.append(connection.recv_bytes())
        size -= len(pieces[-1])
    return b"".join(pieces)


def serve(connection: "Connection[Any, Any]") -> None:
    """Read bodies until the front process is gone; the main function of the process."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal's Ctrl-C is for the front process
    os.nice(5)
    with contextlib.suppress(EOFError, OSError):
        while True:
            _serve_one(connection)


def _serve_one(connection: "Connection[Any, Any]") -> None:
    job = msgspec.msgpack.decode(connection.recv_bytes(), type=ReadingJob)
    for part in _judged(_receive(connection, job.size), job):
        connection.send_bytes(part)


def _judged(content: bytes, job: ReadingJob) -> Iterator[bytes | memoryview]:
    """Yield the verdict on a body, then its inputs if they fit."""
    try:
        verdict, inputs = _judge(content, job)
    except BodyError as error:
        refusal = _Refusal(
            error=type(error).__name__, reason=str(error), location=error.location, kind=error.kind
        )
        yield msgspec.json.encode(refusal)
        return
    yield msgspec.json.encode(verdict)
    for value in (inputs[0], inputs[1] or b"") if inputs else ():
        for start in range(0, len(value), _PIECE):
            yield memoryview(value)[start : start + _PIECE]


def _judge(content: bytes, job: ReadingJob) -> tuple[_Verdict, Inputs | None]:
    if sum(count_of(content, mark) for mark in (b",", b"[", b"{")) > _MOST_VALUES:
        raise ShapeError(
            f"The body has more than {_MOST_VALUES:,} commas and brackets. Send less at once, or "
            "large texts as files."
        )
    body = read_body(content, job.content_type, strict=job.strict)
    rest = msgspec.structs.replace(body, input=msgspec.Raw(b"{}"))
    size = len(msgspec.json.encode(rest))
    if size > LARGE_BYTES:
        raise ShapeError(
            f"The fields beside `input` take {size:,} bytes; at most {LARGE_BYTES:,} are allowed. "
            "Shorten them."
        )
    if not job.document:
        return _Verdict(rest, []), None
    try:
        inputs = fit_inputs(_validator(job), bytes(body.input))
    except InvalidInputs as error:
        return _Verdict(rest, error.problems), None
    known, redacted, digest = inputs
    return _Verdict(
        body=rest, problems=[], sizes=(len(known), len(redacted or b"")), digest=digest
    ), inputs


def _validator(job: ReadingJob) -> InputValidator:
    key = (job.document, job.component, job.most_characters, job.strict)
    if key not in _validators:
        _validators.clear()
        document = msgspec.json.decode(job.document)
        _validators[key] = InputValidator(
            document, job.component, job.most_characters, takes_unknown=job.strict
        )
    return _validators[key]


_verdicts = msgspec.json.Decoder(_Refusal | _Verdict)
_validators: dict[tuple[Any, ...], InputValidator] = {}
