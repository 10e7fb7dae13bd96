"""The commands of `python -m server` that run one thing and end."""

from pathlib import Path
from typing import Annotated

import typer

from cog_adapt.command import USAGE_ERROR
from cog_adapt.command.adapters import adapters
from cog_adapt.command.replay import replay
from cog_adapt.server.command.interrupts import ending_on_signals
from cog_adapt.server.command.openapi import write_document
from cog_adapt.server.command.session import FAILED, INTERRUPTED, Options, run_once
from cog_adapt.server.errors import InputError, ServerError
from cog_adapt.server.middleware.keys import make_key

app = typer.Typer(
    help="Serve with `python -m server`; these commands run one thing and end.",
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
app.add_typer(adapters, name="adapters")
app.command()(replay)

Inputs = Annotated[
    list[str] | None,
    typer.Option(
        "--input",
        "-i",
        metavar="NAME=VALUE",
        help="An input; VALUE may be @file. Repeat for lists.",
    ),
]
Output = Annotated[
    Path | None, typer.Option("--output", "-o", help="File for the result, or a folder for files.")
]
Url = Annotated[
    str | None, typer.Option(help="A server that runs already; without it one is started.")
]
ApiKey = Annotated[str | None, typer.Option("--key", envvar="API_KEY", help="API key for --url.")]
Whole = Annotated[bool, typer.Option("--json", help="Print the whole final object as JSON.")]
Variables = Annotated[
    list[str] | None,
    typer.Option(
        "--env", "-e", metavar="NAME=VALUE", help="A variable of the server that is started."
    ),
]
SetupTimeout = Annotated[
    float, typer.Option(metavar="SECONDS", min=0, help="How long setup may take.")
]


@app.command()
def predict(  # noqa: PLR0913 - the options of the command
    inputs: Inputs = None,
    output: Output = None,
    url: Url = None,
    key: ApiKey = None,
    whole: Whole = False,
    variables: Variables = None,
    setup_timeout: SetupTimeout = 300.0,
) -> None:
    """Run a prediction. Files go to output.*, or where -o says."""
    _run(
        Options(
            kind="predict",
            flags=inputs or (),
            output=output,
            url=url,
            key=key,
            whole=whole,
            variables=variables or (),
            setup_seconds=setup_timeout,
        )
    )


@app.command()
def train(  # noqa: PLR0913 - the options of the command
    inputs: Inputs = None,
    output: Output = None,
    url: Url = None,
    key: ApiKey = None,
    whole: Whole = False,
    variables: Variables = None,
    setup_timeout: SetupTimeout = 300.0,
) -> None:
    """Run a training. Files go to weights.*, or where -o says."""
    _run(
        Options(
            kind="train",
            flags=inputs or (),
            output=output,
            url=url,
            key=key,
            whole=whole,
            variables=variables or (),
            setup_seconds=setup_timeout,
        )
    )


def _run(options: Options) -> None:
    try:
        with ending_on_signals():
            code = run_once(options)
    except KeyboardInterrupt:
        code = INTERRUPTED
    except ServerError as error:
        typer.echo(f"error: {error}", err=True)
        code = USAGE_ERROR if isinstance(error, InputError) else FAILED
    raise typer.Exit(code)


@app.command()
def openapi(
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="A file; without it, standard output.")
    ] = None,
) -> None:
    """Print the OpenAPI document of the predictor in this folder."""
    write_document(output)


@app.command()
def key(
    name: Annotated[str, typer.Argument(help="Of whoever will hold the key.")],
    scopes: Annotated[
        list[str] | None,
        typer.Option("--scope", help="predict, train or admin; repeat it for several."),
    ] = None,
    owner: Annotated[
        str | None,
        typer.Option("--owner", help="To whom belongs what the key makes; by default its NAME."),
    ] = None,
) -> None:
    """Make an API key. It is printed this once; the file of API_KEYS_FILE keeps its hash."""
    try:
        made, line = make_key(name, scopes or ["predict"], owner)
    except ServerError as error:
        typer.echo(f"error: {error}", err=True)
        raise typer.Exit(USAGE_ERROR) from error
    typer.echo(f"the key, for {name} alone:\n{made}\nthe line for API_KEYS_FILE:\n{line}")
