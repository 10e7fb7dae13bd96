"""Where a spawned model process begins; the front process imports this and nothing below it."""

import os
import socket

from server.model.plan import Plan


def enter(work: socket.socket, asides: socket.socket, plan: Plan) -> None:
    """Run the model process, whose modules are imported only in it."""
    from server.model.process import main

    os.setpgrp()  # the front process ends it with all that it has started
    main(work, asides, plan)
