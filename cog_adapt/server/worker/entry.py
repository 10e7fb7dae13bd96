"""Where a spawned model process begins; the front process imports this and nothing below it."""

import os
import socket

from cog_adapt.server.worker.config import Plan


def enter(work: socket.socket, asides: socket.socket, plan: Plan) -> None:
    """Run the model process, whose modules are imported only in it."""
    from cog_adapt.server.worker.main import main

    os.setpgrp()  # the front process ends it with all that it has started
    main(work, asides, plan)
