"""The configuration of a worker, made by the front process: it imports nothing heavy."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from cog_adapt.server.protocol import Kind


@dataclass(frozen=True)
class Place:
    """The part of this host that one worker uses.

    Attributes:
        name: of the worker among those of its kind, such as `0`; empty for the only one.
        device: the value of CUDA_VISIBLE_DEVICES; None: the front process's own.
        environment: variables that are set before the worker imports the predictor.
        cores: the worker's cores; empty: those of the front process.
    """

    name: str = ""
    device: str | None = None
    environment: Mapping[str, str] = field(default_factory=dict)
    cores: frozenset[int] = frozenset()


@dataclass(frozen=True)
class WorkerConfig:
    """The code that a worker loads, and the limits of its runs.

    Attributes:
        reference: FILE.py:NAME of the code to run, found from the working directory.
        kind: whether its run()/predict() or its train() serves.
        other: the reference of the other kind; only for the OpenAPI document.
        concurrency: runs at once; None: the number in `@cog.concurrent` if run() is async.
        upload_url: output files are PUT below this URL; None: they are part of the answer.
        user_agent: of downloads.
        egress_allow: hosts and networks that input files may come from, beside public ones.
        max_file_bytes: of one input file.
        download_seconds: for one input file.
        prefix: of the names of temporary files.
        hang_seconds: without a heartbeat, after which this process is killed; 0: never.
        uploads: folder of the files that callers have uploaded; None: there are none.
        database: DATABASE_URL; a PostgreSQL has the uploads in place of the folder.
        log_format: of the server's own log, which gets text printed outside of runs.
        place: the device and the cores of this worker.
    """

    reference: str
    kind: Kind = "predict"
    other: str | None = None
    concurrency: int | None = None
    upload_url: str | None = None
    user_agent: str | None = None
    egress_allow: tuple[str, ...] = ()
    max_file_bytes: int = 2**30
    download_seconds: float = math.inf
    prefix: str = "tmp"
    hang_seconds: float = 0.0
    uploads: Path | None = None
    database: str | None = None
    log_format: str = "json"
    place: Place = Place()
