"""The tree of errors in the docstring is the tree of classes."""

import re

import pytest

from cog_adapt.server import errors

TREE = re.compile(r"^([│ ├└─]*)([A-Z]\w+)( .*)?$", re.MULTILINE)


def drawn():
    """Each error of the drawing, with the one above it and whether it is a ValueError too."""
    parents, found = {0: None}, {}
    for indent, name, text in TREE.findall(errors.__doc__.split("\n\n")[1]):
        level = len(indent) // 4
        parents[level + 1] = name
        found[name] = (parents[level], "also ValueError" in text)
    return found


CLASSES = {
    name: kind
    for name, kind in vars(errors).items()
    if isinstance(kind, type) and not name.startswith("_")
}


def test_every_error_is_drawn_and_every_drawn_one_exists():
    assert set(drawn()) == set(CLASSES)
    assert len(CLASSES) > 20


@pytest.mark.parametrize("name", CLASSES)
def test_an_error_stands_where_it_is_drawn(name):
    parent, is_value_error = drawn()[name]
    above = [each.__name__ for each in CLASSES[name].__mro__[1:] if each.__name__ in CLASSES]
    assert above[:1] == ([parent] if parent else [])
    assert issubclass(CLASSES[name], ValueError) is is_value_error
    assert issubclass(CLASSES[name], Exception)


@pytest.mark.parametrize("name", ["JsonError", "InvalidRequest"])
def test_an_error_about_a_value_says_which(name):
    error = CLASSES[name]("why", ("body", "id"), "type_error")
    assert (str(error), error.location, error.kind) == ("why", ("body", "id"), "type_error")
    assert (CLASSES[name]("why").location, CLASSES[name]("why").kind) == ((), "value_error")


def test_a_full_queue_says_when_to_come_back():
    error = errors.QueueFull("full", retry_after=3)
    assert (str(error), error.retry_after) == ("full", 3)
