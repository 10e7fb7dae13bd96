"""Counts the lines of a source: all of them, those with code, those besides a predictor's inputs.

A line with code is not blank, no comment and no docstring. Besides its inputs a predictor has
every line with code (its imports too) except the parameters of `run`, from the first one
after `self`.
"""

import ast
import io
import tokenize
from collections.abc import Iterator
from pathlib import Path

_EMPTY = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT}
_DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def all_lines(path: Path) -> int:
    """Count every line of the file."""
    return len(path.read_text("utf-8").splitlines())


def code_lines(path: Path) -> int:
    """Count the lines with code."""
    return len(_code(path.read_text("utf-8")))


def lines_beside_inputs(door: Path) -> int:
    """Count a predictor's lines with code, less the parameters of its `run`."""
    source = door.read_text("utf-8")
    return len(_code(source) - {*_inputs(ast.parse(source))})


def _code(source: str) -> set[int]:
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    lines = {
        line
        for token in tokens
        if token.type not in _EMPTY and token.type != tokenize.ENDMARKER
        for line in range(token.start[0], token.end[0] + 1)
    }
    return lines - {*_docstrings(ast.parse(source))}


def _docstrings(tree: ast.Module) -> Iterator[int]:
    for node in ast.walk(tree):
        if isinstance(node, _DOCUMENTED) and ast.get_docstring(node) is not None:
            docstring = node.body[0]
            yield from range(docstring.lineno, (docstring.end_lineno or 0) + 1)


def _inputs(tree: ast.Module) -> Iterator[int]:
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name == "run":
            last = max(value.end_lineno or 0 for value in node.args.defaults)
            yield from range(node.args.args[1].lineno, last + 1)
