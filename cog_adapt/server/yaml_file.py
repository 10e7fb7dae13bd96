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
        node, line, names = self.root, 1 if self.root is None else _line(self.root), []
        for part in location:
            for key, name, value in _children(node):
                if name == str(part):
                    node, line = value, _line(key)
                    names.append(name)
                    break
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
        prefix = error.problem_mark or error.context_mark
        place = f"{path}:{prefix.line + 1}:{prefix.column + 1}" if prefix else str(path)
        reason = ", ".join(filter(None, (error.context, error.problem)))
        raise ConfigError(f"{place}: no YAML: {reason}. Correct the line.") from error
    except ConfigError:
        raise
    except ValueError as error:  # a date that there never was, say
        raise ConfigError(f"{path}: no YAML: {error}. Correct it, or quote the value.") from error
    finally:
        loader.dispose()


def _refuse_duplicates(path: Path, root: yaml.Node | None) -> None:
    problems = []
    for mapping in _mappings(root, set()):
        first: dict[str, yaml.Node] = {}
        for key, name, _ in _children(mapping):
            if first.setdefault(name, key) is not key:
                problems.append(
                    f"{path}:{_line(key)}: {name} is here a second time, after line "
                    f"{_line(first[name])}; keep one."
                )
    if problems:
        raise ConfigError("\n".join(problems))


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


def _line(node: yaml.Node) -> int:
    return int(node.start_mark.line) + 1
