"""Starts a spawned worker; the front process imports only this module of the room."""

import multiprocessing
import os
import socket

from cog_adapt.server.worker.config import WorkerConfig


def enter(channel: socket.socket, config: WorkerConfig) -> None:
    """Run the worker; its modules are imported only in its process."""
    from cog_adapt.server.worker.guard import end_with, start_guard

    front, log = multiprocessing.parent_process(), None
    os.setsid()  # so that the front process can end it with all processes that it started
    if front is not None and front.pid is not None:
        end_with(front.pid)
        log = start_guard(front.pid, config)

    from cog_adapt.server.worker.main import main

    main(channel, config, log)
