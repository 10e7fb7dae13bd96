"""Pages that the code implies: the command line, the Python names, and `llms.txt`."""

import inspect
import os
import re
from collections.abc import Iterator
from typing import Any

import cog_adapt
import gradient_check
from tests.contract_snapshot.command_line import shown
from tests.site.pages import ROOT, titles

_SECTION = re.compile(r"^(Args|Attributes|Returns|Yields|Raises|Example|Examples):$")
_ENTRY = re.compile(r"^ {4}(\*{0,2}[\w.]+)(?: \([^)]*\))?: (.*)$")
_PLACE = re.compile(r"\b(?:[a-z_]\w*\.)+(?=[A-Z]\w*)")
_QUESTION = re.compile(r"^\| ([A-Z].*?\?) \| (.*) \|$", re.MULTILINE)
_LINK = re.compile(r"\]\(([^)#]+)")
_PLAIN = (str, int, float, tuple, type(None), type)
_COMMAND = re.compile(r"^ {2}([a-z-]+) ", re.MULTILINE)


class _Unshown:
    """A default such as the environment, whose content is nobody's business."""

    def __repr__(self) -> str:
        return "…"


def reference() -> dict[str, str]:
    """Return the pages' texts by their places in the repository."""
    return {
        "docs/cli.md": "\n".join(_command_page()),
        "docs/python-api.md": "\n".join(_python_page()),
        "docs/llms.txt": "\n".join(_index()),
    }


def _command_page() -> Iterator[str]:
    yield "# The command line\n"
    yield "`cog-adapt`, or `python -m cog_adapt`; this page is `--help` of each command.\n"
    yield from _command(())


def _command(names: tuple[str, ...]) -> Iterator[str]:
    text = _help(names)
    if names:
        yield f"{'#' * (1 + len(names))} {' '.join(names)}\n"
    yield f"```text\n{text}\n```\n"
    listed = text.partition("\nCommands:\n")[2] if names else text
    for name in _COMMAND.findall(listed):
        yield from _command((*names, name))


def _help(names: tuple[str, ...]) -> str:
    text = shown(lambda: cog_adapt.run([*names, "--help"])).strip()
    text = re.sub(r"(?<=^Usage: ).*?(?= \[OPTIONS\])", " ".join(("cog-adapt", *names)), text)
    return "\n".join(line.rstrip() for line in text.splitlines())


def _python_page() -> Iterator[str]:
    yield "# Python\n"
    yield "Every public name, with its signature and docstring. Others may change at any time.\n"
    for module in (cog_adapt, gradient_check):
        yield f"## {module.__name__}\n"
        yield f"{inspect.getdoc(module)}\n"
        for name in module.__all__:
            yield from _described(name, getattr(module, name), "###")


def _described(name: str, value: Any, level: str) -> Iterator[str]:
    inner = inspect.unwrap(getattr(value, "__func__", value))
    if not (inspect.isclass(value) or inspect.isfunction(inner)):
        return
    yield f"{level} {name}\n"
    yield f"```python\n{_signature(name, inner)}\n```\n"
    yield from _prose(inspect.getdoc(inner) or "")
    if inspect.isclass(value):
        for each, member in _members(value).items():
            yield from _described(f"{name}.{each}", member, "####")


def _members(owner: type) -> dict[str, Any]:
    """Return the public methods of a class, and those of its bases that have no public name."""
    found = dict[str, Any]()
    for base in owner.__mro__:
        is_ours = base.__module__.partition(".")[0] in ("cog_adapt", "gradient_check")
        if base is owner or (is_ours and base.__name__ not in cog_adapt.__all__):
            for name, member in vars(base).items():
                if not name.startswith("_") and inspect.getdoc(member):
                    found.setdefault(name, member)
    return found


def _signature(name: str, value: Any) -> str:
    """Return a call as it is written; of a default that is no plain value, `…` alone."""
    try:
        found = inspect.signature(value)
    except ValueError:
        return name
    shown = [
        each if isinstance(each.default, _PLAIN) else each.replace(default=_Unshown())
        for each in found.parameters.values()
        if not each.name.startswith("_")
    ]
    if name.endswith("Settings"):
        return f"{name}(**settings)  # settings.md names them"
    return _PLACE.sub(
        "", f"{name}{found.replace(parameters=shown)}".replace("-> '", "-> ").rstrip("'")
    )


def _prose(text: str) -> Iterator[str]:
    """Yield a docstring of Google's style as Markdown."""
    is_listed = False
    for line in text.splitlines():
        if section := _SECTION.match(line):
            is_listed = True
            yield f"**{section[1]}**\n"
        elif is_listed and (entry := _ENTRY.match(line)):
            yield f"- `{entry[1]}`: {entry[2]}"
        else:
            is_listed = is_listed and (line.startswith(" ") or not line)
            yield f"  {line.strip()}" if is_listed and line else line
    yield ""


def _index() -> Iterator[str]:
    """Yield `llms.txt`: each page of the navigation, with the question that it answers."""
    questions = dict[str, str]()
    for question, pages in _QUESTION.findall((ROOT / "docs" / "README.md").read_text()):
        for place in _LINK.findall(pages):
            path = os.path.normpath(os.path.join("docs", place))
            questions.setdefault(path, question)
    yield "# cog-adapt\n"
    yield f"> {inspect.getdoc(cog_adapt)}".partition("\n")[0] + "\n"
    for title, path in titles():
        yield f"- [{title}]({path})" + (f": {questions[path]}" if path in questions else "")
    yield ""
