"""Imports, describes and sets up the user's predictor or training function."""

import asyncio
import inspect
import os
import traceback
from collections.abc import Callable
from typing import Any

import msgspec

from cog_adapt.server.errors import ConfigError
from cog_adapt.server.protocol import Described, Kind
from cog_adapt.server.schema.loader import Target, find_handler, load_reference
from cog_adapt.server.schema.openapi import openapi_schema
from cog_adapt.server.worker.config import WorkerConfig
from cog_adapt.server.worker.inputs import InputReader


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
        self.is_async = inspect.iscoroutinefunction(called) or inspect.isasyncgenfunction(called)
        declared = getattr(called, "__cog_concurrent_max__", 1) if self.is_async else 1
        self.concurrency: int = config.concurrency or declared
        if self.concurrency > 1 and not self.is_async:
            raise ConfigError(
                f"concurrency is {self.concurrency}, but {handler.name} is not async; "
                "make it `async def`, or set COG_MAX_CONCURRENCY=1."
            )

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
            self._other = None
            schema = self._describe_alone()
        return Described(msgspec.json.encode(schema), self.concurrency, self.is_async)

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


def _load_other(reference: str | None) -> Target | None:
    """Load the target that is only described; its errors do not fail this process."""
    if not reference:
        return None
    try:
        return load_reference(reference)
    except (Exception, SystemExit):  # noqa: BLE001 - the user's code may raise anything
        traceback.print_exc()
        return None
