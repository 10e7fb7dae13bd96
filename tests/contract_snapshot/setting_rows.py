"""The settings of both sides: variable, default, and what is allowed."""

from collections.abc import Iterator

from cog_adapt.command.settings import model_rows, server_rows, shared_rows


def settings() -> Iterator[str]:
    """Yield a line for each variable; the unit is how the text of its meaning begins or names it.

    The text itself is for readers and may be improved; the unit is part of the contract.
    """
    sides = {"both": shared_rows(), "server": server_rows(), "model": model_rows()}
    for side, rows in sides.items():
        for row in rows:
            line = f"{side} {row.name} default {row.default} allowed {row.allowed}"
            yield f"{line} unit {_unit(row.name, row.meaning)}"


def _unit(name: str, meaning: str) -> str:
    words = (name.rpartition("_")[2].lower(), *meaning.lower().replace(";", " ").split())
    units = ("bytes", "seconds", "days", "share", "characters")
    return next((word for word in words if word in units), "none")
