"""Decodes the inputs of queries on a thread of its own, one at a time, owners in turn.

A picture of 40 megapixels takes 0.4 s, in which the model thread answers others. Many inputs are
decoded and answered in portions, so that decoded inputs take bounded memory.
"""

import asyncio
from collections.abc import Generator, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from cog_adapt.runner.data.examples import Example
from cog_adapt.runner.errors import InputError
from cog_adapt.runner.inference.answers import Query
from cog_adapt.runner.scheduling.giving_way import giving_way
from cog_adapt.runner.scheduling.scheduler import Scheduler
from cog_adapt.runner.scheduling.tickets import Ticket
from cog_adapt.runner.task.decoding import Decoded, check_decoding, decoding_inputs, opens_no_file
from cog_adapt.runner.task.errors import named
from cog_adapt.runner.task.task import Task, decodes

AT_ONCE = 32  # inputs of a request that are decoded before the first is answered


class InputDecoder:
    """Decodes inputs for a task; a task without decoding needs no thread.

    Attributes:
        thread: of the decoding; None if the task decodes nothing.
    """

    def __init__(self, task: Task) -> None:
        self._task = task
        self.thread = Scheduler("decode") if decodes(task) else None
        if self.thread is not None:
            self.thread.explain = partial(named, task)

    def close(self) -> None:
        """End the thread."""
        if self.thread is not None:
            self.thread.close()

    async def check_async(self, inputs: Sequence[Any], examples: Sequence[Example] = ()) -> None:
        """Check as `check_decoding` does, from an event loop: a thread reads the headers."""
        if opens_no_file(self._task, inputs, examples):
            check_decoding(self._task, inputs, examples)
        else:
            await asyncio.to_thread(_checked, self._task, inputs, examples)

    def portions(self, query: Query) -> Iterator[Query]:
        """Cut a query into portions that are decoded and answered one after the other."""
        if self._is_ready(query) or len(query.inputs) <= AT_ONCE:
            yield query
            return
        for first in range(0, len(query.inputs), AT_ONCE):
            yield replace(query, inputs=query.inputs[first : first + AT_ONCE])

    def decoded(self, query: Query) -> Query:
        """Return a query with its inputs decoded (InputError if one is broken)."""
        return query if self._is_ready(query) else _with(query, self._submit(query).wait())

    async def decoded_async(self, query: Query) -> Query:
        """Decode as `decoded` does, from an event loop."""
        if self._is_ready(query):
            return query
        return _with(query, await self._submit(query).wait_async())

    async def few_decoded(self, query: Query) -> Query:
        """Decode a query that is answered more than once, if it has few inputs; else return it."""
        return query if len(query.inputs) > AT_ONCE else await self.decoded_async(query)

    async def whole_decoded(self, query: Query) -> Query:
        """Decode the inputs of one stream.

        Raises:
            InputError: they are too many to be decoded at once, or one is broken.
        """
        if not self._is_ready(query) and len(query.inputs) > AT_ONCE:
            raise InputError(
                f"a stream answers {len(query.inputs):,} inputs; at most {AT_ONCE} are decoded for "
                "one. Send fewer."
            )
        return await self.decoded_async(query)

    def _is_ready(self, query: Query) -> bool:
        return self.thread is None or all(isinstance(each, Decoded) for each in query.inputs)

    def _submit(self, query: Query) -> Ticket[list[Decoded]]:
        assert self.thread is not None
        return self.thread.submit_short(_decoded(self._task, query.inputs), query.owner)


def _checked(task: Task, inputs: Sequence[Any], examples: Sequence[Example]) -> None:
    with giving_way():
        check_decoding(task, inputs, examples)


def _decoded(task: Task, inputs: Sequence[Any]) -> Generator[None, None, list[Decoded]]:
    with giving_way():
        return (yield from decoding_inputs(task, inputs))


def _with(query: Query, inputs: Sequence[Any]) -> Query:
    return replace(query, inputs=inputs)
