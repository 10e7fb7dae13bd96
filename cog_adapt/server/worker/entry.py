"""Starts a spawned worker; the front process imports this module and nothing below it."""

import os
import socket

from cog_adapt.server.worker.config import WorkerConfig


def enter(channel: socket.socket, config: WorkerConfig) -> None:
    """Run the worker, whose modules are imported only in it."""
    from cog_adapt.server.worker.main import main

    os.setpgrp()  # the front process ends it with all that it has started
    main(channel, config)
