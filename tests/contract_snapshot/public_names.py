"""The public names: of `cog_adapt`, and of each package inside it that declares `__all__`."""

import importlib
import inspect
import os
import pkgutil
import re
from collections.abc import Iterator
from pathlib import Path

import cog_adapt

OURS = {"cog_adapt", "gradient_check"}  # whose inherited attributes count as public
_PLACE = re.compile(r"\b(?:[a-z_]\w*\.)+(?=[A-Z]\w*)")  # of a class; where it lies is private
_ADDRESS = re.compile(r" at 0x[0-9a-f]+")


def public_names() -> Iterator[str]:
    """Yield names with their signature, and each public attribute of the package's classes."""
    for name in cog_adapt.__all__:
        yield from _described(f"cog_adapt.{name}", getattr(cog_adapt, name))
    for found in pkgutil.walk_packages(cog_adapt.__path__, "cog_adapt."):
        if found.ispkg and ".migrations" not in found.name:
            module = importlib.import_module(found.name)
            alike: dict[str, list[str]] = {}
            for name in sorted(getattr(module, "__all__", ())):
                alike.setdefault(_signature(getattr(module, name)), []).append(name)
            for signature, names in alike.items():
                yield f"{found.name}.{', '.join(names)}{signature}"


def _described(name: str, value: object) -> Iterator[str]:
    given = _parameters(value)
    is_settings = name.endswith("Settings")  # a part of its own has their names and defaults
    yield f"{name} of {len(given)} settings" if is_settings else f"{name}{_signature(value)}"
    if inspect.isclass(value):
        known, told = dict[str, str](), dict[str, str]()
        for base in reversed(value.__mro__):
            is_told = base is not value and base.__name__ in cog_adapt.__all__
            if base.__module__.partition(".")[0] in OURS:
                (told if is_told else known).update(_members(base))
        own = {each: text for each, text in known.items() if told.get(each) != text}
        yield from (f"{name}.{each}{text}" for each, text in own.items() if each not in given)


def _parameters(value: object) -> dict[str, inspect.Parameter]:
    """Return the parameters of what can be called; a library's private ones are not ours."""
    try:
        found = inspect.signature(value).parameters if callable(value) else {}
    except ValueError:
        found = {}
    return {name: each for name, each in found.items() if not name.startswith("_")}


def _members(owner: type) -> Iterator[tuple[str, str]]:
    annotated = inspect.get_annotations(owner)
    for name in (each for each in {*vars(owner), *annotated} if not each.startswith("_")):
        value = inspect.getattr_static(owner, name, None)
        inner = getattr(value, "__func__", value)
        if inspect.isfunction(inner):
            kind = {classmethod: " (classmethod)", staticmethod: " (staticmethod)"}
            yield name, f"{_signature(inner)}{kind.get(type(value), '')}"
        else:
            yield name, f": {_shown(annotated.get(name, type(value).__name__))}"


def _shown(annotation: object) -> str:
    text = annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)
    return _ADDRESS.sub("", _PLACE.sub("", text))


def _signature(value: object) -> str:
    if not callable(value):
        return f" = {type(value).__name__}"
    try:
        found = inspect.signature(value)
    except ValueError:
        return "(…)"
    own = [_plain(each) for each in _parameters(value).values()]
    return _shown(str(found.replace(parameters=own)))


def _plain(parameter: inspect.Parameter) -> inspect.Parameter:
    """Return a parameter whose default shows nothing of this machine."""
    if isinstance(parameter.default, Path):
        return parameter.replace(default=str(parameter.default))
    if parameter.default is os.environ:
        return parameter.replace(default="os.environ")
    return parameter
