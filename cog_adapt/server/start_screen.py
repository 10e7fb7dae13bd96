"""Says on a terminal that the server is ready, and where; or that its setup failed."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import TextIO

import msgspec

from cog_adapt.server.service.self_test import outcome
from cog_adapt.server.service.worker import Worker

_PAUSE = 0.05  # s between looks at the worker
_WORDS = {True: "the self-test passed", False: "the self-test failed", None: "without a self-test"}
_FAILED = """\
The setup failed, so every prediction is refused; the cause is above. End the server with Ctrl-C,
correct the cause, and start the server again. `python -m cog_adapt doctor` says what is missing.
"""


async def say_outcome(workers: Sequence[Worker], links: Mapping[str, str], stream: TextIO) -> None:
    """Wait for the end of each worker's first setup, and write what came of them.

    Args:
        workers: those that start with the server.
        links: the addresses to show once it is ready, by their names.
        stream: the terminal.
    """
    while any(each.state in ("idle", "starting") for each in workers):
        await asyncio.sleep(_PAUSE)
    usable = [each for each in workers if each.ready is not None]
    stream.write(_ready_lines(usable, len(workers), links) if usable else _FAILED)
    stream.flush()


def _ready_lines(usable: Sequence[Worker], count: int, links: Mapping[str, str]) -> str:
    setup, ready = usable[0].setup, usable[0].ready
    report = msgspec.json.decode(ready.self_test) if ready and ready.self_test else None
    seconds = (setup.completed_at or setup.started_at) - setup.started_at
    said = f"after {seconds.total_seconds():.1f} s; {_WORDS[outcome(report)]}"
    if count > 1:
        said += f"; {len(usable)} of {count} model processes serve"
    return "".join(f"{name:<9}{each}\n" for name, each in {"ready": said, **links}.items())
