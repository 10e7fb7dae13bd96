"""Where a spawned model process begins; the front process imports this and nothing below it."""

import socket

from server.model.plan import Plan


def enter(channel: socket.socket, plan: Plan) -> None:
    """Run the model process, whose modules are imported only in it."""
    from server.model.process import main

    main(channel, plan)
