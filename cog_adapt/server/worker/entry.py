"""Starts a spawned worker; the front process imports only this module of the room."""

import multiprocessing
import os
import socket

from cog_adapt.server.worker.config import WorkerConfig


def enter(channel: socket.socket, config: WorkerConfig) -> None:
    """Run the worker at its place; its modules are imported only in its process."""
    os.environ.update(config.place.environment)  # before torch reads them in its import
    if config.place.cores:
        os.sched_setaffinity(0, config.place.cores)

    from cog_adapt.server.worker.guard import end_with, start_guard

    front, log = multiprocessing.parent_process(), None
    os.setsid()  # so that the front process can end it with all processes that it started
    if front is not None and front.pid is not None:
        end_with(front.pid)
        log = start_guard(front.pid, config)

    from cog_adapt.server.worker.main import main

    main(channel, config, log)
