"""The numbers of model processes, such as their memory."""

import asyncio
from collections import Counter
from collections.abc import Sequence

from cog_adapt.server.protocol import AskGauges, Gauges
from cog_adapt.server.service.worker import Worker

GAUGE_SECONDS = 0.5


async def sum_gauges(workers: Sequence[Worker]) -> dict[str, float]:
    """Return the numbers of all workers together, such as their memory."""
    total = Counter[str]()
    for values in await asyncio.gather(*map(read_gauges, workers)):
        total.update(values)
    return dict(total)


async def read_gauges(worker: Worker) -> dict[str, float]:
    """Return a worker's own gauges; none if it does not answer at once."""
    return (await read_numbers(worker)).values


async def read_numbers(worker: Worker) -> Gauges:
    """Return a worker's own gauges, histograms and info; none if it does not answer at once."""
    if worker.state != "ready":
        return Gauges({})
    try:
        answer: Gauges = await worker.pending.ask(AskGauges(), Gauges, GAUGE_SECONDS)
    except TimeoutError:
        return Gauges({})
    return answer
