"""A site whose predictor keeps adapters: all of the worker's side but its process."""

import asyncio
import json

from cog_adapt.server.adapter_messages import AskAdapters
from cog_adapt.server.middleware.keys import Key
from cog_adapt.server.protocol import Frames, Ready, to_frame
from cog_adapt.server.worker.adapters import AdapterAnswers, AdapterLease
from tests.cog_adapt.server.kept_adapters import KeptAdapters

ADA = Key("ada", frozenset({"predict"}), "0")
BOB = Key("bob", frozenset({"predict"}), "1")
ROOT = Key("root", frozenset({"admin"}), "2")


def keep(site, kept=None):
    """Start a worker that keeps adapters; return them."""
    kept = KeptAdapters() if kept is None else kept
    loop, lead = asyncio.get_running_loop(), site.lead

    def report(message):
        (received,) = Frames.of_reports().feed(to_frame(message))
        loop.call_soon_threadsafe(lead.on_report, received)

    answers = AdapterAnswers(kept, report, AdapterLease())

    tell = site.model.send

    def send(request):
        if not isinstance(request, AskAdapters):
            return tell(request)
        if hasattr(kept, "asked"):
            kept.asked.append(request.action)
        (received,) = Frames.of_requests().feed(to_frame(request))
        answers.answer(received)
        return site.model.hears

    site.model.send = send
    lead.ready = Ready(has_adapters=True)
    answers.start()
    return kept


def read(answer):
    return json.loads(answer.body)


async def ids(site, query="", **more):
    answer = await site.ask("GET", "/adapters", query=query, **more)
    return [each["id"] for each in read(answer)["results"]]


async def put(kept, owner, content, **more):
    """Make one, as a run does: on another thread."""
    return await asyncio.to_thread(kept.put, owner, content, **more)
