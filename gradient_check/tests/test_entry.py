"""A mode decorator on an entry that runs its body later is told; on others it is not."""

import asyncio
import functools
import inspect
import io
from collections.abc import AsyncIterator, Awaitable, Callable, Generator, Iterator

import pytest
import torch

from gradient_check.checks.entry import judge_entry
from gradient_check.findings.examination import Examination
from gradient_check.findings.report import Finding
from gradient_check.tests.present import present


def findings(entry: Callable[..., object]) -> list[Finding]:
    exam = Examination()
    judge_entry(exam, entry)
    return exam.findings


@torch.no_grad()
async def decorated_coroutine() -> None:
    """Its mode ends before its body runs."""


@torch.inference_mode()
async def decorated_generator():
    yield


@torch.no_grad()
def decorated_function() -> None:
    """Its mode does what it says."""


async def plain_coroutine() -> None:
    """Has no mode."""


def wrapped(function):
    @functools.wraps(function)
    def call(*args):
        return function(*args)

    return call


@pytest.mark.parametrize(
    ("entry", "mode"),
    [
        (decorated_coroutine, "no_grad"),
        (wrapped(decorated_coroutine), "no_grad"),
        (decorated_generator, "inference_mode"),
        (functools.partial(decorated_coroutine), "no_grad"),
    ],
)
def test_a_mode_on_an_async_entry_is_told_with_its_line(entry, mode: str) -> None:
    (finding,) = findings(entry)
    assert (finding.code, finding.level) == ("async-decorated", "FAIL")
    assert f"decorated with torch's {mode}:" in finding.message
    assert "async def decorated_" in present(finding.line)


@pytest.mark.parametrize(
    "entry", [decorated_function, plain_coroutine, wrapped(plain_coroutine), wrapped(len)]
)
def test_other_entries_are_sound(entry) -> None:
    assert findings(entry) == []


def words():
    yield "a"


async def word():
    return "a"


@torch.no_grad()
def returns_a_generator(x=1):
    return words()


@torch.inference_mode()
def returns_one_by_a_variable(x=1):
    stream = words()
    if x:
        return stream
    return None


@torch.no_grad()
def returns_an_expression(x=1):
    return (each for each in "ab")


@torch.no_grad()
def returns_a_map(x=1):
    return map(str.upper, "ab")


@torch.no_grad()
def returns_a_coroutine(x=1):
    return word()


@torch.no_grad()
def returns_a_librarys_coroutine(x=1):
    return asyncio.sleep(x)


@torch.no_grad()
def returns_a_nested_one(x=1):
    def inner():
        yield x

    return inner()


@torch.no_grad()
@wrapped
def generator_behind_a_wrapper():
    yield 1


class Predictor:
    def _stream(self):
        yield "a"

    @torch.inference_mode()
    def run(self, text: str = "") -> str:
        return self._stream()

    @torch.inference_mode()
    def sound(self, text: str = "") -> list[str]:
        return list(self._stream())


def annotated(annotation):
    def function(x=1):
        return unknown(x)  # type: ignore[name-defined]  # noqa: F821 - read, never called

    function.__annotations__["return"] = annotation
    return torch.no_grad()(function)


LATER = (
    returns_a_generator,
    returns_one_by_a_variable,
    returns_an_expression,
    returns_a_map,
    returns_a_coroutine,
    returns_a_librarys_coroutine,
    Predictor().run,
    Predictor.run,
)


@pytest.mark.parametrize("entry", LATER, ids=lambda entry: entry.__qualname__)
def test_an_entry_that_returns_a_body_for_later_is_told_without_a_call(entry):
    (finding,) = findings(entry)
    assert (finding.code, finding.level) == ("async-decorated", "FAIL")
    assert f"{entry.__name__} returns a generator or coroutine and decorated" in finding.message
    assert f"def {entry.__name__}(" in present(finding.line)


def test_a_generator_behind_a_plain_wrapper_is_told():
    (finding,) = findings(generator_behind_a_wrapper)
    assert "is a generator, wrapped by a plain function" in finding.message


@pytest.mark.parametrize(
    "annotation",
    [
        Iterator[str],
        Generator[str, None, None],
        AsyncIterator[str],
        Awaitable[str],
        "Iterator[str]",
    ],
)
def test_an_annotation_tells_where_the_source_does_not(annotation):
    (finding,) = findings(annotated(annotation))
    assert "is annotated as returning an iterator or awaitable and decorated" in finding.message


def test_cogs_own_annotations_tell_it_too():
    cog = pytest.importorskip("cog")
    for kind in (cog.ConcatenateIterator, cog.AsyncConcatenateIterator):
        assert len(findings(annotated(kind[str]))) == 1
    assert findings(annotated(cog.File)) == []


@torch.no_grad()
def decorated_generator_function() -> Iterator[str]:
    yield "a"


@torch.no_grad()
def iterates_over_what_is_there() -> Iterator[str]:
    return iter(["a"])


@torch.no_grad()
def returns_what_a_nested_generator_gave():
    def inner():
        yield 1

    return list(inner())


@pytest.mark.parametrize(
    "entry",
    [
        decorated_generator_function,
        iterates_over_what_is_there,
        returns_what_a_nested_generator_gave,
        Predictor().sound,
        annotated(str),
        annotated(None),
        annotated(list[str]),
        annotated(io.BytesIO),
        annotated("no such name"),
        torch.no_grad()(len),
        torch.no_grad()(lambda: 1),
        inspect.unwrap(returns_a_generator),
    ],
)
def test_what_has_run_when_it_returns_is_sound(entry):
    assert findings(entry) == []
