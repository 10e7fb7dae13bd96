"""The errors of the server; none of them knows HTTP (`api/responses.py` has the one table).

ServerError
├── ConfigError               a setting, or the predictor's code, cannot be served (also ValueError)
├── InputError                the caller's values do not fit (also ValueError)
│   ├── DownloadError         a caller's file cannot be downloaded (`egress/`)
│   └── EgressError           a caller's URL leads where the server does not connect to (`egress/`)
├── UnavailableError          a server cannot be reached, or does not do what is asked
├── StorageError              the database or a file cannot be read or written now
│   └── TakenOverError        another server has the record
└── RequestError              a request is not accepted
    ├── BodyError             its body cannot be read
    │   ├── MediaTypeError    it is of another type than JSON
    │   ├── JsonError         it is no JSON
    │   └── ShapeError        it is JSON of another shape
    ├── InvalidRequest        a value in it is not allowed
    ├── InvalidInputs         its inputs do not fit the model (`schema/`)
    ├── InvalidPath           its path cannot be read
    ├── Forbidden             the API key lacks a scope
    ├── NotFound              there is nothing under this id
    ├── NotStreamable         a stream is asked of what cannot give one
    ├── IdInUse               its id belongs to another prediction
    ├── NotEnded              what is to be forgotten has not ended
    ├── AtCapacity            no slot is free, and nothing may wait
    ├── QueueFull             no slot is free, and the queue is full
    ├── TooLarge              it has more bytes than this route takes, or one caller may have held
    ├── BudgetSpent           too much is held for this caller, or for all
    ├── DiskFull              nothing more may be kept on the disk
    ├── TooManyReaders        too many follow the same prediction
    ├── NotReady              the predictor does not serve now
    ├── OwnerGone             the server that runs it does not answer
    ├── NotRecorded           it cannot be kept in the database
    ├── NoAdapters            the predictor keeps no adapters
    ├── AdapterError          the predictor's adapters failed
    ├── AdapterTimeout        the predictor's adapters did not answer in time
    ├── ExamplesError         the predictor's example requests cannot be read
    ├── SelfTestError         the self-test could not be run
    └── SelfTestTimeout       the self-test did not end in time

Every message names the value, the limit and the remedy.
"""


class ServerError(Exception):
    """Anything the server refuses or cannot do."""


class ConfigError(ServerError, ValueError):
    """A setting, or the predictor's code, cannot be served."""


class InputError(ServerError, ValueError):
    """The caller's values do not fit."""

    # its message is shown even if a predictor raises it (docs/predictor-protocol.md)
    caller_error = True


class UnavailableError(ServerError):
    """A server cannot be reached, or does not do what is asked."""


class StorageError(ServerError):
    """The database or a file cannot be read or written now; the same call may succeed later."""


class TakenOverError(StorageError):
    """Another server has the record: do not run it, and say nothing more about it."""


class RequestError(ServerError):
    """A request is not accepted.

    Attributes:
        retry_after: seconds after which another try makes sense; None: it never does, or nobody
            knows when.
    """

    retry_after: int | None = None


class _Located(RequestError):
    """An error about one value of a request.

    Attributes:
        location: of the value, such as ("body", "id"); () where there is none.
        kind: pydantic's word for the mistake.
    """

    def __init__(
        self, reason: str, location: tuple[str, ...] = (), kind: str = "value_error"
    ) -> None:
        super().__init__(reason)
        self.location = location
        self.kind = kind


class BodyError(_Located):
    """The body of a request cannot be read."""


class MediaTypeError(BodyError):
    """The body is of another type than JSON."""


class JsonError(BodyError):
    """The body is not JSON."""


class ShapeError(BodyError):
    """The body is JSON of another shape."""


class InvalidRequest(_Located):
    """A value of a request is not allowed."""


class InvalidPath(RequestError):
    """The path of a request cannot be read."""


class Forbidden(RequestError):
    """The API key lacks a scope."""


class NotFound(RequestError):
    """There is nothing under this id."""


class NotStreamable(RequestError):
    """The client asks for a stream of a run that cannot stream."""


class IdInUse(RequestError):
    """The id belongs to another prediction, one that has not ended or has another input."""


class NotEnded(RequestError):
    """A prediction or training that is to be forgotten has not ended."""


class AtCapacity(RequestError):
    """No slot is free, and nothing may wait for one."""


class QueueFull(RequestError):
    """No slot is free for this owner, and the queue is full.

    Attributes:
        retry_after: seconds after which another try makes sense.
    """

    def __init__(self, reason: str, retry_after: int) -> None:
        super().__init__(reason)
        self.retry_after = retry_after


class TooLarge(RequestError):
    """One request has more bytes than this route takes, or than one caller may have held."""


class BudgetSpent(RequestError):
    """Too much is held for this caller, or for all.

    Attributes:
        retry_after: seconds after which another try makes sense.
    """

    retry_after: int

    def __init__(self, reason: str, retry_after: int) -> None:
        super().__init__(reason)
        self.retry_after = retry_after


class DiskFull(RequestError):
    """The disk, or the budget of the disk, has no room left."""


class TooManyReaders(RequestError):
    """Too many follow the same prediction."""

    retry_after = 1


class NotReady(RequestError):
    """The predictor is not ready to serve."""

    retry_after = 5


class OwnerGone(RequestError):
    """The server that runs it does not answer, and no other server has taken it over yet."""

    retry_after = 5


class NotRecorded(RequestError):
    """The request cannot be kept in the database."""

    retry_after = 1


class NoAdapters(RequestError):
    """The predictor keeps no adapters."""


class AdapterError(RequestError):
    """The predictor's adapters failed."""


class AdapterTimeout(RequestError):
    """The predictor's adapters did not answer in time."""


class ExamplesError(RequestError):
    """The predictor's example requests cannot be read."""


class SelfTestError(RequestError):
    """The self-test could not be run."""


class SelfTestTimeout(RequestError):
    """The self-test did not end in time."""
