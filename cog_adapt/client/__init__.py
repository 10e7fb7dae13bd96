"""A client of a server, blocking and asynchronous. It needs no torch, and nothing of the server.

client.py      `Client` and `AsyncClient`
runs.py        predictions and trainings, from a request to its end
adapters.py    adapters
connection.py  requests to one server
transport.py   HTTP in two ways with one face: what is above is written once, as coroutines
files.py       inputs that are files, and downloads
uploads.py     large files of inputs
run.py         `Run` and `Event`
errors.py      the errors, a class for each kind
"""

from cog_adapt.client.adapters import Adapters, AsyncAdapters
from cog_adapt.client.client import AsyncClient, Client
from cog_adapt.client.errors import (
    BadRequest,
    Busy,
    ClientError,
    Conflict,
    FileNotWritten,
    NotFound,
    NotReady,
    Problem,
    RefusedInput,
    RequestTooLarge,
    RunCanceled,
    RunFailed,
    ServerFault,
    StorageFull,
    TimedOut,
    Unauthorized,
    Unreachable,
)
from cog_adapt.client.run import Event, Kind, Run

__all__ = [
    "Adapters",
    "AsyncAdapters",
    "AsyncClient",
    "BadRequest",
    "Busy",
    "Client",
    "ClientError",
    "Conflict",
    "Event",
    "FileNotWritten",
    "Kind",
    "NotFound",
    "NotReady",
    "Problem",
    "RefusedInput",
    "RequestTooLarge",
    "Run",
    "RunCanceled",
    "RunFailed",
    "ServerFault",
    "StorageFull",
    "TimedOut",
    "Unauthorized",
    "Unreachable",
]
