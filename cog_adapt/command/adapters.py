"""The commands `adapters ls`, `show`, `get`, `receipt`, `put`, `name`, `give`, `rm` and more."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Literal

import typer

from cog_adapt.client import Client
from cog_adapt.command import USAGE_ERROR
from cog_adapt.runner.errors import InputError as RefusedInput
from cog_adapt.runner.errors import RunnerError
from cog_adapt.server.command.adapter_source import AdapterSource, as_json, as_lines
from cog_adapt.server.command.failures import client_errors
from cog_adapt.server.command.interrupts import ending_on_signals
from cog_adapt.server.errors import InputError, ServerError

adapters = typer.Typer(
    help="The adapters of a server, or without --url those in this folder's WEIGHTS_DIR.",
    rich_markup_mode=None,
)
_FAILED, _INTERRUPTED = 1, 130

_Url = Annotated[str | None, typer.Option(help="A server; without it the adapters of this folder.")]
_ApiKey = Annotated[str | None, typer.Option("--key", envvar="API_KEY", help="API key for --url.")]
_Owner = Annotated[str | None, typer.Option(help="Only adapters of this owner.")]
_Reference = Annotated[str, typer.Argument(metavar="ADAPTER", help="An id, a name, or NAME@vN.")]
_Whole = Annotated[bool, typer.Option("--json", help="Print all metadata as JSON.")]
_Output = Annotated[Path, typer.Option("--output", "-o", help="A file, or a folder.")]
_Format = Annotated[
    Literal["safetensors", "peft", "diffusers", "kohya"],
    typer.Option("--format", help="This project's file, a .zip of PEFT's two, or a LoRA file."),
]


@adapters.command()
def ls(  # noqa: PLR0913 - the options of the command
    name: Annotated[str | None, typer.Option(help="Only the versions of this name.")] = None,
    label: Annotated[str | None, typer.Option(help="Only those that learnt this label.")] = None,
    owner: _Owner = None,
    whole: _Whole = False,
    url: _Url = None,
    key: _ApiKey = None,
) -> None:
    """List adapters, newest first."""
    with _source(url, key) as source:
        found = list(source.list(name=name, label=label, owner=owner))
        for line in [as_json(found)] if whole else as_lines(found):
            typer.echo(line)


@adapters.command()
def show(
    reference: _Reference, owner: _Owner = None, url: _Url = None, key: _ApiKey = None
) -> None:
    """Print what is known of an adapter, as JSON."""
    with _source(url, key) as source:
        typer.echo(as_json(source.get(reference, owner=owner)))


@adapters.command()
def get(  # noqa: PLR0913 - the options of the command
    reference: _Reference,
    output: _Output = Path(),
    form: _Format = "safetensors",
    owner: _Owner = None,
    url: _Url = None,
    key: _ApiKey = None,
) -> None:
    """Write an adapter to a file."""
    with _source(url, key) as source:
        written = source.download(reference, output, format=form, owner=owner)
        typer.echo(f"written: {written}", err=True)


@adapters.command()
def receipt(
    reference: _Reference,
    output: _Output = Path(),
    owner: _Owner = None,
    url: _Url = None,
    key: _ApiKey = None,
) -> None:
    """Write how an adapter was made to a file, for `replay`."""
    with _source(url, key) as source:
        written = source.download(reference, output, format="receipt", owner=owner)
        typer.echo(f"written: {written}", err=True)


@adapters.command()
def put(
    file: Annotated[Path, typer.Argument(help="A safetensors file, or PEFT's two in a .zip.")],
    name: Annotated[str | None, typer.Option(help="Give it a name too.")] = None,
    url: _Url = None,
    key: _ApiKey = None,
) -> None:
    """Keep the adapter of a file, checked against the model; print its id.

    Without --url a server is started for that, as `predict` does.
    """
    with _source(url, key) as source:
        made = source.upload(file)
        typer.echo(made["id"])
        if name is not None:
            source.change(made["id"], {"name": name}, owner=made["owner"])


@adapters.command("name")
def rename(
    reference: _Reference,
    name: Annotated[str, typer.Argument(help="A name used before makes its next version.")],
    owner: _Owner = None,
    url: _Url = None,
    key: _ApiKey = None,
) -> None:
    """Name an adapter, and print the name with its version."""
    with _source(url, key) as source:
        changed = source.change(reference, {"name": name}, owner=owner)
        typer.echo(f"{changed['name']}@v{changed['version']}")


@adapters.command()
def give(
    reference: _Reference,
    receiver: Annotated[str, typer.Argument(metavar="OWNER", help="As in API_KEYS_FILE.")],
    owner: _Owner = None,
    url: _Url = None,
    key: _ApiKey = None,
) -> None:
    """Move an adapter to another owner; at a server with the key of an admin."""
    with _source(url, key) as source:
        given = source.give(reference, receiver, owner=owner)
        name = f" {given['name']}@v{given['version']}" if given["name"] else ""
        typer.echo(f"given to {receiver}: {given['id']}{name}", err=True)


@adapters.command()
def rm(
    references: Annotated[list[str], typer.Argument(metavar="ADAPTER…", help="Each as for show.")],
    owner: _Owner = None,
    url: _Url = None,
    key: _ApiKey = None,
) -> None:
    """Remove adapters; what was made from them stays, and is named."""
    with _source(url, key) as source:
        for reference in references:
            children = source.remove(reference, owner=owner)["children"]
            made = f"; made from it: {', '.join(children)}" if children else ""
            typer.echo(f"removed: {reference}{made}", err=True)


@adapters.command("move-to-store")
def move_to_store() -> None:
    """Bring this folder's adapters, versions and decisions to ADAPTER_STORE.

    Large texts of records go from DATA_DIR to the PostgreSQL of DATABASE_URL. The server has to be
    ended first; a command that was cut off may be repeated.
    """
    with _saying_failures():
        from cog_adapt.command import move_to_store as moving  # torch takes seconds
        from cog_adapt.runner.config import RunnerSettings
        from cog_adapt.server.settings import read_settings

        for line in moving.move_to_store(RunnerSettings.from_environment(), read_settings()):
            typer.echo(line)


@contextmanager
def _source(url: str | None, key: str | None) -> Iterator[AdapterSource]:
    """Open the source of a command's adapters; its errors become one line and an exit code."""
    if url is None:
        with _saying_failures():
            # Imported here: torch takes seconds, which no other command waits for.
            from cog_adapt.command.stored_adapters import StoredAdapters
            from cog_adapt.runner.config import RunnerSettings

            yield StoredAdapters(RunnerSettings.from_environment())
    else:
        with _saying_failures(), _served(url, key) as served:
            yield served


@contextmanager
def _saying_failures() -> Iterator[None]:
    try:
        with ending_on_signals():
            yield
    except KeyboardInterrupt as error:
        raise typer.Exit(_INTERRUPTED) from error
    except (ServerError, RunnerError) as error:
        typer.echo(f"error: {error}", err=True)
        is_callers = isinstance(error, InputError | RefusedInput)
        raise typer.Exit(USAGE_ERROR if is_callers else _FAILED) from error


@contextmanager
def _served(url: str, key: str | None) -> Iterator[AdapterSource]:
    with client_errors(), Client(url, key) as client:
        yield client.adapters
