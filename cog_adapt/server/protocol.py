"""The messages between the front process and the worker.

Messages are msgpack with a tag, in frames of four bytes of length (big-endian) and that many bytes.
A client's JSON travels as JSON bytes in both directions, so that neither side decodes data that it
only passes on. Nothing here is pickled.

There is one socket for each worker: requests one way, in their order, and reports the other.
"""

import struct
from typing import Any, Literal

import msgspec

from cog_adapt.server.adapter_messages import AdapterReport, AskAdapters, Claimed, KeepServing

Kind = Literal["predict", "train"]
NOUNS: dict[Kind, str] = {"predict": "prediction", "train": "training"}
Status = Literal["succeeded", "failed", "canceled"]
MetricMode = Literal["replace", "increment", "append"]
OWNER_KEY = "cog_adapt.owner"  # the owner, in a run's context; only the server sets it
# "true" if the caller's key has the scope `admin`; only the server sets it
ADMIN_KEY = "cog_adapt.admin"
_LENGTH = struct.Struct(">I")


def owned(context: dict[str, str], owner: str, *, is_admin: bool = False) -> dict[str, str]:
    """Return a context with this owner, whatever owner it named; "": it names none."""
    others = {name: text for name, text in context.items() if name not in (OWNER_KEY, ADMIN_KEY)}
    if not owner:
        return others
    return others | {OWNER_KEY: owner} | ({ADMIN_KEY: "true"} if is_admin else {})


class _Message(msgspec.Struct, frozen=True, tag=True):
    """One message."""


class Run(_Message, frozen=True):
    """Front to model: start a prediction or training; at most one for each slot.

    Attributes:
        id: of the run, for other messages.
        input: the JSON object of its inputs, already validated; unknown ones are dropped.
        context: the request's; if API keys are set, it names the key's owner under OWNER_KEY, and
            has ADMIN_KEY for an admin.
        prediction_id: the client's id; two owners may choose the same. Empty: `id`.
        kind: of the code to run; None: the kind that the worker was started for.
    """

    id: str
    input: bytes
    context: dict[str, str]
    prediction_id: str = ""
    kind: Kind | None = None

    @property
    def owner(self) -> str:
        """The owner of the request's key; empty if no keys are set."""
        return self.context.get(OWNER_KEY, "")

    @property
    def shown_id(self) -> str:
        """The id for logs and for receivers of its files."""
        return self.prediction_id or self.id


class Cancel(_Message, frozen=True):
    """Front to model: end the earlier run `id`; it also answers with `Finished`."""

    id: str


class AskHealth(_Message, frozen=True):
    """Front to model: call the user's `healthcheck()`; answered by `Health`."""


class AskSelfTest(_Message, frozen=True):
    """Front to model: run the gradient self-test again; answered by `SelfTested`."""


class AskGauges(_Message, frozen=True):
    """Front to model: answered by `Gauges`."""


class Stop(_Message, frozen=True):
    """Front to model: end when the running predictions have ended."""


class Beat(_Message, frozen=True):
    """Model to front, periodically from the start on: the process lives.

    Attributes:
        busy: the age in seconds of the model thread's running tick; 0: none runs.
        allowed: the tick's own limit in seconds.
        fatal: why the process must be restarted; empty if it need not be.
    """

    busy: float = 0.0
    allowed: float = 0.0
    fatal: str = ""


class SetupLog(_Message, frozen=True):
    """Model to front: a line printed by an import or by setup()."""

    source: Literal["stdout", "stderr"]
    data: str


class Described(_Message, frozen=True):
    """Model to front, before setup(): facts from the code.

    Attributes:
        schema: the OpenAPI document as JSON.
        concurrency: of `@cog.concurrent`; 1 without it.
        is_async: whether run() is a coroutine or an async generator.
        serves_both: whether one object, once set up, predicts and trains in several slots.
    """

    schema: bytes
    concurrency: int
    is_async: bool
    serves_both: bool = False


class Ready(_Message, frozen=True):
    """Model to front: setup() has succeeded.

    Attributes:
        self_test: the report of the gradient self-test as JSON; None without a ModelRunner.
        has_healthcheck: whether the predictor has a `healthcheck()`.
        has_adapters: whether the predictor has `adapters`.
        adapter_folder: identity and path of the folder of adapters that the servers of one
            PostgreSQL must share; None: there is none.
    """

    self_test: bytes | None = None
    has_healthcheck: bool = False
    has_adapters: bool = False
    adapter_folder: tuple[str, str] | None = None


class SetupFailed(_Message, frozen=True):
    """Model to front: setup() has failed; the process stays until `Stop`.

    Attributes:
        error: the exception in one line; its traceback is in the setup logs.
        self_test: the report of a gradient self-test that had run by then, as JSON.
    """

    error: str
    self_test: bytes | None = None


class Log(_Message, frozen=True):
    """Model to front: whole lines that the prediction printed; the last may lack its newline."""

    id: str
    source: Literal["stdout", "stderr"]
    data: str


class Output(_Message, frozen=True):
    """Model to front: a yielded item, an item of a returned list, or the one returned value."""

    id: str
    chunk: bytes


class Metric(_Message, frozen=True):
    """Model to front: a recorded metric, by its dotted name; `value` is JSON, null deletes it."""

    id: str
    name: str
    value: bytes
    mode: MetricMode = "replace"


class Finished(_Message, frozen=True):
    """Model to front: the prediction has ended; this is its last message.

    Attributes:
        status: the final status.
        is_list: whether the output is the list of all chunks, or the only chunk.
        error: the reason of a failure, without a traceback.
        predict_time: seconds in run(), inputs and outputs included.
    """

    id: str
    status: Status
    is_list: bool = False
    error: str | None = None
    predict_time: float = 0.0


class Health(_Message, frozen=True):
    """Model to front: the result of healthcheck(); None: healthy, or there is none."""

    error: str | None = None


class SelfTested(_Message, frozen=True):
    """Model to front: a self-test's report as JSON; None without a ModelRunner."""

    report: bytes | None = None
    error: str | None = None


class Distribution(msgspec.Struct, frozen=True):
    """A histogram: `counts` has one entry more than `bounds`, and is not cumulative."""

    bounds: list[float]
    counts: list[int]
    sum: float
    labels: dict[str, str] = {}


class Gauges(_Message, frozen=True):
    """Model to front: numbers for /metrics, by name, such as `device_memory_bytes`."""

    values: dict[str, float]
    histograms: dict[str, list[Distribution]] = {}
    info: dict[str, str] = {}


Question = AskHealth | AskSelfTest | AskGauges
Request = Run | Cancel | Stop | Question | AskAdapters | KeepServing | Claimed
SetupReport = SetupLog | Described | Ready | SetupFailed
RunReport = Log | Output | Metric | Finished
Report = SetupReport | RunReport | Health | SelfTested | Gauges | AdapterReport | Beat

_encoder = msgspec.msgpack.Encoder()
_requests = msgspec.msgpack.Decoder(Request)
_reports = msgspec.msgpack.Decoder(Report)


def to_frame(message: Request | Report) -> bytearray:
    """Encode a message, with its length in front; a large input is copied once."""
    frame = bytearray(_LENGTH.size)
    _encoder.encode_into(message, frame, _LENGTH.size)
    _LENGTH.pack_into(frame, 0, len(frame) - _LENGTH.size)
    return frame


class Frames:
    """Cuts a stream of bytes into messages."""

    def __init__(self, decoder: "msgspec.msgpack.Decoder[Any]") -> None:
        self._decoder = decoder
        self._buffer = bytearray()

    @classmethod
    def of_requests(cls) -> "Frames":
        """Make the frames of the worker, which receives the front process's messages."""
        return cls(_requests)

    @classmethod
    def of_reports(cls) -> "Frames":
        """Make the frames of the front process, which receives the worker's messages."""
        return cls(_reports)

    @property
    def missing(self) -> int:
        """The bytes until the frame that has begun is whole; 0 if its length is not known."""
        if len(self._buffer) < _LENGTH.size:
            return 0
        return _LENGTH.size + int(_LENGTH.unpack_from(self._buffer)[0]) - len(self._buffer)

    def feed(self, data: bytes | bytearray) -> list[Any]:
        """Add bytes, and return the messages that are now complete.

        Raises:
            msgspec.DecodeError: the other side does not speak this protocol.
        """
        self._buffer += data
        with memoryview(self._buffer) as view:
            messages, end = self._decode_whole(view)
        del self._buffer[:end]
        return messages

    def _decoded(self, body: memoryview) -> Any:  # noqa: ANN401 - any message
        try:
            return self._decoder.decode(body)
        except UnicodeDecodeError as error:
            raise msgspec.DecodeError(f"a text is not UTF-8: {error.reason}") from error

    def _decode_whole(self, view: memoryview) -> tuple[list[Any], int]:
        """Decode the complete messages at the beginning; return also the end of the last one."""
        messages, start = [], 0
        while len(view) - start >= _LENGTH.size:
            end = start + _LENGTH.size + _LENGTH.unpack_from(view, start)[0]
            if end > len(view):
                break
            messages.append(self._decoded(view[start + _LENGTH.size : end]))
            start = end
        return messages, start
