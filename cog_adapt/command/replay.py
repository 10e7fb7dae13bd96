"""The command `replay`: repeats the steps of a receipt, and compares the adapters."""

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cog_adapt.client import Client, NotFound
from cog_adapt.command import USAGE_ERROR
from cog_adapt.runner.errors import InputError as RefusedInput
from cog_adapt.runner.errors import RunnerError
from cog_adapt.server.command.failures import client_errors
from cog_adapt.server.command.interrupts import ending_on_signals
from cog_adapt.server.errors import InputError, ServerError

if TYPE_CHECKING:
    from cog_adapt.runner.data.examples import ExampleSet
    from cog_adapt.runner.requests.replay import ReplayResult
    from cog_adapt.runner.task.task import Task

_FAILED, _INTERRUPTED = 1, 130


def replay(  # noqa: PLR0913 - the options of the command
    receipt: Annotated[Path, typer.Argument(help="A receipt, as `adapters receipt` writes it.")],
    examples: Annotated[
        Path | None, typer.Option(help="The examples; without it those of --record.")
    ] = None,
    record: Annotated[
        str | None,
        typer.Option(metavar="ID", help="The prediction or training that was sent the examples."),
    ] = None,
    url: Annotated[str | None, typer.Option(help="The server that has the record.")] = None,
    key: Annotated[
        str | None, typer.Option("--key", envvar="API_KEY", help="Its owner's API key.")
    ] = None,
    adapter: Annotated[
        Path | None, typer.Option(help="The adapter that it went on from, where it is not here.")
    ] = None,
    public_key: Annotated[
        Path | None, typer.Option(metavar="PEM", help="The key that must have signed it.")
    ] = None,
    task: Annotated[
        str, typer.Option(metavar="FILE:CLASS", help="The task; by default that in task.py.")
    ] = "task.py",
) -> None:
    """Replay an adaptation: 0 where the adapter is the same bit for bit, 1 where it is not."""
    try:
        with ending_on_signals():
            sent = None if examples else _sent(record, url, key)
            done = _replayed(
                receipt, examples, sent, adapter=adapter, public_key=public_key, reference=task
            )
    except KeyboardInterrupt as error:
        raise typer.Exit(_INTERRUPTED) from error
    except (ServerError, RunnerError, OSError) as error:
        typer.echo(f"error: {error}", err=True)
        is_callers = isinstance(error, InputError | RefusedInput)
        raise typer.Exit(USAGE_ERROR if is_callers else _FAILED) from error
    for line in _lines(done):
        typer.echo(line)
    raise typer.Exit(0 if done.is_equal else _FAILED)


def _replayed(  # noqa: PLR0913 - those of the command
    receipt: Path,
    examples: Path | None,
    sent: Any,  # noqa: ANN401 - rows, or text
    adapter: Path | None,
    public_key: Path | None,
    reference: str,
) -> "ReplayResult":
    # Imported here: torch takes seconds, which no other command waits for.
    from cog_adapt.runner.config import RunnerSettings
    from cog_adapt.runner.known.receipt import read_receipt
    from cog_adapt.runner.model_runner import ModelRunner
    from cog_adapt.runner.modules.adapters import load_adapter
    from cog_adapt.runner.requests.replay import replay as replay_receipt
    from cog_adapt.runner.selftest.task_file import load_task

    checked = read_receipt(receipt.read_bytes(), public_key)
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())  # the task's file may import its neighbours
    task = load_task(reference)
    rows = _read(task, examples, sent).examples
    begin = load_adapter(adapter) if adapter else None
    with ModelRunner(task, RunnerSettings.from_environment()) as runner:
        return replay_receipt(runner, receipt=checked, examples=rows, begin=begin)


def _read(
    task: "Task",
    examples: Path | None,
    sent: Any,  # noqa: ANN401 - rows, or text
) -> "ExampleSet":
    from cog_adapt.runner.data.examples import parse_examples, read_examples

    return read_examples(examples, task.example) if examples else parse_examples(sent, task.example)


def _sent(record: str | None, url: str | None, key: str | None) -> Any:  # noqa: ANN401
    """Get the examples of a record from a server.

    Raises:
        InputError: no record is named, or it has no examples.
    """
    if record is None or url is None:
        raise InputError("no examples: give a file with --examples, or --record ID with --url.")
    with client_errors(), Client(url, key) as client:
        inputs = _inputs_of(client, record)
    if not inputs.get("examples"):
        raise InputError(
            f"the record {record!r} has no rows in `examples`. Give the file that was sent, with "
            "--examples."
        )
    return inputs["examples"]


def _inputs_of(client: Client, record: str) -> dict[str, Any]:
    """Find a record among predictions, then among trainings."""
    try:
        run = client.get(record)
    except NotFound:
        run = client.get(record, kind="train")
    found = run.record.get("input")
    return found if isinstance(found, dict) else {}


def _lines(done: "ReplayResult") -> list[str]:
    verdict = "equal, bit for bit" if done.is_equal else "NOT equal"
    lines = [
        f"{done.steps} steps replayed: the adapter is {verdict}.",
        f"receipt {done.expected}",
        f"replay  {done.found}",
        *(f"other now: {each}" for each in done.differences),
    ]
    if not done.is_equal and not done.is_promised:
        lines.append("equal bits are promised on the same device and versions only.")
    return lines
