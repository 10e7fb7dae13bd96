"""One run from the command line, from its flags to its exit code."""

import contextlib
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cog_adapt.client import Client, ClientError
from cog_adapt.server.command.failures import client_errors
from cog_adapt.server.command.inputs import Flags, fit_inputs, read_flags
from cog_adapt.server.command.interrupts import canceling
from cog_adapt.server.command.local_server import local_server
from cog_adapt.server.command.results import OutputPath, as_text, write, write_files
from cog_adapt.server.command.schema import InputSchema
from cog_adapt.server.errors import InputError
from cog_adapt.server.protocol import Kind

if TYPE_CHECKING:
    from cog_adapt.server.command.display import Display

SUCCEEDED, FAILED, INTERRUPTED = 0, 1, 130


@dataclass(frozen=True)
class Options:
    """The options from the command line.

    Attributes:
        kind: a prediction or a training.
        flags: the values of `-i`.
        output: the path of `-o`.
        url: a running server, or None to start one.
        key: an API key for `url`.
        whole: whether to print the whole final object.
        variables: NAME=VALUE for the environment of the server that is started.
        setup_seconds: how long setup may take.
    """

    kind: Kind
    flags: Sequence[str]
    output: Path | None
    url: str | None
    key: str | None
    whole: bool
    variables: Sequence[str]
    setup_seconds: float


def run_once(options: Options) -> int:
    """Run it, show it, and write its results. Return the exit code.

    Raises:
        InputError: a flag is wrong; nothing was run.
        UnavailableError: no server can run it.
        StorageError: a result cannot be written.
    """
    # Imported here because it needs rich, and `openapi` runs the user's code without rich.
    from cog_adapt.server.command.display import Display

    flags = read_flags(options.flags)
    target = OutputPath(options.output, "weights" if options.kind == "train" else "output")
    target.check()
    display = Display()
    with _server(options) as client:
        with display, client_errors():
            inputs = _prepare(options=options, flags=flags, client=client, display=display)
            final, was_interrupted = _run(client, options.kind, inputs, display=display)
        code = _conclude(options=options, final=final, target=target, display=display)
    return INTERRUPTED if was_interrupted and final["status"] == "canceled" else code


def _run(
    client: Client, kind: Kind, inputs: dict[str, Any], display: "Display"
) -> tuple[dict[str, Any], bool]:
    """Return the final object, and whether Ctrl-C was pressed during the run."""
    run_id = uuid.uuid4().hex
    with canceling(lambda: _cancel(client, kind, run_id), display.say) as interrupted:
        for event in client.events(inputs, kind=kind, run_id=run_id):
            display.show(event.name, event.data)
    return event.data, interrupted.once


def _cancel(client: Client, kind: Kind, run_id: str) -> bool:
    """Cancel the run. Return False if the server does not know it (yet)."""
    try:
        return client.cancel(run_id, kind=kind)
    except ClientError:
        return False


def _prepare(options: Options, flags: Flags, client: Client, display: "Display") -> dict[str, Any]:
    """Wait for the server's setup, and check the inputs before anything runs."""
    display.phase("setting up")
    client.wait_until_ready(options.setup_seconds)
    schema = InputSchema(client.document(), options.kind)
    inputs = fit_inputs(flags, schema)
    display.phase("starting")
    shows_text = schema.is_text and not options.whole and options.output is None
    display.expect(schema.steps(inputs), is_text=schema.is_text, streams_text=shows_text)
    return inputs


@contextlib.contextmanager
def _server(options: Options) -> Iterator[Client]:
    if options.url is None:
        with local_server(options.kind, _variables(options.variables)) as local:
            yield local
        return
    if options.variables:
        raise InputError("--env is for a server that is started here; with --url leave it out.")
    with client_errors():
        client = Client(options.url, options.key)
    with contextlib.closing(client):
        yield client


def _variables(lines: Sequence[str]) -> dict[str, str]:
    for line in lines:
        if not line.partition("=")[0] or "=" not in line:
            raise InputError(f"--env {line}: allowed: NAME=VALUE.")
    return dict(line.split("=", 1) for line in lines)


def _conclude(
    options: Options, final: dict[str, Any], target: OutputPath, display: "Display"
) -> int:
    """Write the output. Return the exit code."""
    output, succeeded = final.get("output"), final["status"] == "succeeded"
    if display.is_text and isinstance(output, list):
        output = "".join(map(str, output))
    if options.whole:
        _put(final, target, display)
    elif display.streams_text:
        display.finish_text(output if succeeded and isinstance(output, str) else None)
    elif succeeded:
        _deliver(output, target, display)
    if succeeded:
        return SUCCEEDED
    display.say(f"{final['status']}: {final['error']}" if final.get("error") else final["status"])
    return FAILED


def _deliver(output: object, target: OutputPath, display: "Display") -> None:
    if output is None:
        display.say("no output")
        return
    rest, paths = write_files(output, target)
    for path in paths:
        display.say(f"written: {path}")
    if paths and rest is not None:
        display.put(as_text(rest))
    elif rest is not None:
        _put(rest, target, display)


def _put(value: object, target: OutputPath, display: "Display") -> None:
    """Write text or JSON to the file of `-o`, else to standard output."""
    if target.named is None:
        display.put(as_text(value))
    else:
        write(target.path, f"{as_text(value)}\n".encode())
        display.say(f"written: {target.path}")
