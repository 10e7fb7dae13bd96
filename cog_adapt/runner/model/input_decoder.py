"""Decodes the inputs of queries on threads of its own, one at a time on each, owners in turn.

A picture of 40 megapixels takes 0.4 s, in which the model thread answers others. If the task tells
which inputs are decoded quickly, these have the first thread and the others the second. One thread
that alternated between pieces of several large pictures would hold the pixels of all of them. Many
inputs are decoded and answered in portions, so that decoded inputs take bounded memory.
"""

import asyncio
from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from cog_adapt.runner.data.examples import Example
from cog_adapt.runner.errors import InputError
from cog_adapt.runner.inference.answers import Query
from cog_adapt.runner.scheduling.giving_way import giving_way
from cog_adapt.runner.scheduling.scheduler import Scheduler
from cog_adapt.runner.scheduling.tickets import Ticket
from cog_adapt.runner.task.decoding import (
    QUICK,
    are_decoded,
    check_decoding,
    decoding_inputs,
    opens_no_file,
    threads_of,
)
from cog_adapt.runner.task.errors import named
from cog_adapt.runner.task.task import Task

AT_ONCE = 32  # inputs of a request that are decoded before the first is answered


class InputDecoder:
    """Decodes inputs for a task; a task without decoding needs no thread.

    Attributes:
        threads: by name, in the order in which an input is offered to them.
    """

    def __init__(self, task: Task) -> None:
        self._task = task
        self.threads: Mapping[str, Scheduler] = {name: Scheduler(name) for name in threads_of(task)}
        for thread in self.threads.values():
            thread.explain = partial(named, task)

    def close(self) -> None:
        """End the threads."""
        for thread in self.threads.values():
            thread.close()

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
        for name in self.threads:
            if not self._is_ready(query):
                query = replace(query, inputs=self._submit(name, query).wait())
        return query

    async def decoded_async(self, query: Query) -> Query:
        """Decode as `decoded` does, from an event loop."""
        for name in self.threads:
            if not self._is_ready(query):
                query = replace(query, inputs=await self._submit(name, query).wait_async())
        return query

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
        return not self.threads or are_decoded(query.inputs)

    def _submit(self, name: str, query: Query) -> Ticket[list[Any]]:
        work = _decoded(self._task, query.inputs, only_quick=name == QUICK)
        return self.threads[name].submit_short(work, query.owner)


def _checked(task: Task, inputs: Sequence[Any], examples: Sequence[Example]) -> None:
    with giving_way():
        check_decoding(task, inputs, examples)


def _decoded(
    task: Task, inputs: Sequence[Any], *, only_quick: bool
) -> Generator[None, None, list[Any]]:
    with giving_way():
        return (yield from decoding_inputs(task, inputs, only_quick=only_quick))
