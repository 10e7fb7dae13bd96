"""A client of a server, blocking and asynchronous. It needs no torch, and nothing of the server.

client.py      `Client` and `AsyncClient`
runs.py        predictions and trainings, from a request to its end
adapters.py    adapters
connection.py  requests to one server
transport.py   HTTP in two ways with one face, so that the rooms above are written once
files.py       inputs that are files, and downloads
run.py         `Run` and `Event`
errors.py      the errors, a class for each kind
"""

from cog_adapt.client.adapters import Adapters, AsyncAdapters
from cog_adapt.client.client import AsyncClient, Client
from cog_adapt.client.errors import (
    Busy,
    ClientError,
    Conflict,
    FileNotWritten,
    NotFound,
    NotReady,
    Problem,
    RefusedInput,
    RunCanceled,
    RunFailed,
    Unauthorized,
    Unreachable,
)
from cog_adapt.client.run import Event, Kind, Run

__all__ = [
    "Adapters",
    "AsyncAdapters",
    "AsyncClient",
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
    "Run",
    "RunCanceled",
    "RunFailed",
    "Unauthorized",
    "Unreachable",
]
