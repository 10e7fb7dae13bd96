"""YAML from a file, with the line of each value.

A key that is there twice is refused: PyYAML would silently take the last one.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import yaml

from cog_adapt.server.errors import ConfigError


@dataclass(frozen=True)
class YamlFile:
    """What a file holds.

    Attributes:
        path: of the file.
        value: plain Python values.
        root: the node of the whole; None if the file is empty.
    """

    path: Path
    value: object
    root: yaml.Node | None

    def find(self, location: tuple[str | int, ...]) -> tuple[str, str]:
        """Where something is: `FILE:LINE`, and the dotted name of its key or list item.

        Parts of the location that the file does not have are passed over, so that what is
        missing is found at the mapping it is missing from.
        """
        node, line, names = self.root, 1 if self.root is None else _line_of(self.root), []
        for part in location:
            child = _find_child(node, str(part))
            if child is not None:
                key, name, node = child
                line = _line_of(key)
                names.append(name)
        return f"{self.path}:{line}", ".".join(names)


def read_yaml(path: Path) -> YamlFile:
    """Read a file.

    Raises:
        ConfigError: there is no such file, it is no YAML, or a key is there twice.
    """
    try:
        loader = yaml.SafeLoader(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise ConfigError(f"{path} does not exist; create it or name another file.") from error
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise ConfigError(f"{path} cannot be read as UTF-8 text: {error}.") from error
    try:
        root = loader.get_single_node()
        _refuse_duplicates(path, root)
        return YamlFile(path, None if root is None else loader.construct_document(root), root)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = f"{path}:{mark.line + 1}:{mark.column + 1}" if mark else str(path)
        reason = ", ".join(filter(None, (error.context, error.problem)))
        raise ConfigError(f"{place}: no YAML: {reason}. Correct the line.") from error
    except ConfigError:
        raise
    except ValueError as error:  # a date that there never was, say
        raise ConfigError(f"{path}: no YAML: {error}. Correct it, or quote the value.") from error
    finally:
        loader.dispose()


def _refuse_duplicates(path: Path, root: yaml.Node | None) -> None:
    problems = [
        f"{path}:{_line_of(key)}: {name} is here a second time, after line "
        f"{_line_of(first)}; keep one."
        for mapping in _mappings(root, set())
        for key, name, first in _find_duplicates(mapping)
    ]
    if problems:
        raise ConfigError("\n".join(problems))


def _find_duplicates(mapping: yaml.Node) -> Iterator[tuple[yaml.Node, str, yaml.Node]]:
    """Each key that is there again, its name, and the key that was first."""
    first: dict[str, yaml.Node] = {}
    for key, name, _ in _children(mapping):
        if first.setdefault(name, key) is not key:
            yield key, name, first[name]


def _mappings(node: yaml.Node | None, seen: set[int]) -> Iterator[yaml.Node]:
    if node is None or id(node) in seen:  # an alias may be inside what it stands for
        return
    seen.add(id(node))
    if isinstance(node, yaml.MappingNode):
        yield node
    for _, _, value in _children(node):
        yield from _mappings(value, seen)


def _children(node: yaml.Node | None) -> Iterator[tuple[yaml.Node, str, yaml.Node]]:
    """Where each part of a node is written, its name, and the part."""
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            yield key, str(key.value), value
    elif isinstance(node, yaml.SequenceNode):
        for index, value in enumerate(node.value):
            yield value, str(index), value


def _find_child(node: yaml.Node | None, wanted: str) -> tuple[yaml.Node, str, yaml.Node] | None:
    """The first part of this name."""
    return next((child for child in _children(node) if child[1] == wanted), None)


def _line_of(node: yaml.Node) -> int:
    return int(node.start_mark.line) + 1
