"""Imports, describes and sets up the user's predictor or training function."""

import asyncio
import inspect
import os
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import msgspec

from cog_adapt.server.errors import ConfigError
from cog_adapt.server.protocol import Described, Kind
from cog_adapt.server.schema.loader import Target, find_handler, load_reference
from cog_adapt.server.schema.openapi import openapi_schema
from cog_adapt.server.worker.config import WorkerConfig
from cog_adapt.server.worker.inputs import InputReader

_OTHERS: dict[Kind, Kind] = {"predict": "train", "train": "predict"}


@dataclass(frozen=True)
class Code:
    """The user's function for one kind of run.

    Attributes:
        kind: whether it predicts or trains.
        inputs: reads the arguments.
        function: called by each run.
    """

    kind: Kind
    inputs: InputReader
    function: Callable[..., Any]


class Predictor:
    """The user's code that serves the runs, imported but not yet set up.

    Args:
        config: has the file's name and the object's.

    Attributes:
        instance: of the user's class; or the user's function itself.
        function: called by each run.
        inputs: reads the arguments.
        kind: whether it predicts or trains.
        is_async: whether `function` is a coroutine function or an async generator function.
        concurrency: runs at once.

    Raises:
        BaseException: any error of the user's code at import.
        ConfigError: the file has no such handler.
    """

    def __init__(self, config: WorkerConfig) -> None:
        self.kind: Kind = config.kind
        self._target = load_reference(config.reference)
        self._other = _load_other(config.other)
        handler = find_handler(self._target, config.kind)
        self.inputs = InputReader.of(handler)
        self.instance: Any = self._target
        self._method = handler.name.rpartition(".")[2] if inspect.isclass(self._target) else None
        called = getattr(self._target, self._method) if self._method else self._target
        self.function: Callable[..., Any] = called
        self.is_async = _is_async(called)
        declared = getattr(called, "__cog_concurrent_max__", 1) if self.is_async else 1
        self.concurrency: int = config.concurrency or declared
        if self.concurrency > 1 and not self.is_async:
            raise ConfigError(
                f"concurrency is {self.concurrency}, but {handler.name} is not async; "
                "make it `async def`, or set COG_MAX_CONCURRENCY=1."
            )
        self._further = self._find_further(config)

    def _find_further(self, config: WorkerConfig) -> tuple[str, InputReader] | None:
        """Return the method for the other kind, if the same object can serve both at once."""
        if config.other != config.reference or not inspect.isclass(self._target):
            return None
        try:
            handler = find_handler(self._target, _OTHERS[self.kind])
        except ConfigError:
            return None
        name = handler.name.rpartition(".")[2]
        is_able = self.concurrency > 1 and _is_async(getattr(self._target, name))
        return (name, InputReader.of(handler)) if is_able else None

    def code(self, kind: Kind | None) -> Code:
        """Return the function for a kind of run, and the reader of its arguments."""
        if self._further is None or kind in (None, self.kind):
            return Code(self.kind, self.inputs, self.function)
        name, inputs = self._further
        return Code(_OTHERS[self.kind], inputs, getattr(self.instance, name))

    def describe(self) -> Described:
        """Return the OpenAPI document and the other facts for the front process.

        Raises:
            ConfigError: a signature that Cog does not accept.
        """
        targets: dict[Kind, Target | None] = {"predict": self._other, "train": self._other}
        targets[self.kind] = self._target
        try:
            schema = openapi_schema(targets["predict"], targets["train"])
        except ConfigError:
            if self._other is None:
                raise
            self._other = self._further = None
            schema = self._describe_alone()
        serves_both = self._further is not None
        return Described(msgspec.json.encode(schema), self.concurrency, self.is_async, serves_both)

    def _describe_alone(self) -> dict[str, Any]:
        own = self._target
        schema = openapi_schema(own, None) if self.kind == "predict" else openapi_schema(None, own)
        traceback.print_exc()  # the fault lies in the other kind: this kind has its document
        return schema

    def set_up(self, run_async: Callable[[Any], Any]) -> None:
        """Make the instance and call its setup().

        Args:
            run_async: runs a coroutine on the loop of the runs.

        Raises:
            BaseException: any error of the user's code.
        """
        if self._method is None:
            return
        self.instance = self._target()
        self.function = getattr(self.instance, self._method)
        setup = getattr(self.instance, "setup", None)
        if setup is None:
            return
        arguments = {}
        if "weights" in inspect.signature(setup).parameters:
            arguments["weights"] = os.environ.get("COG_WEIGHTS") or None
        result = setup(**arguments)
        if asyncio.iscoroutine(result):
            run_async(result)

    @property
    def healthcheck(self) -> Callable[[], Any] | None:
        """The user's own health check, if there is one."""
        return getattr(self.instance, "healthcheck", None) if self._method else None


def _is_async(function: Callable[..., Any]) -> bool:
    return inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function)


def _load_other(reference: str | None) -> Target | None:
    """Load the target that is only described; its errors do not fail this process."""
    if not reference:
        return None
    try:
        return load_reference(reference)
    except (Exception, SystemExit):  # noqa: BLE001 - the user's code may raise anything
        traceback.print_exc()
        return None
