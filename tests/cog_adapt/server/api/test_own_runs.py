"""Routes of one's own run predictions as the server's own do."""

import asyncio
import json

import msgspec
import pytest
from fastapi import Request
from fastapi.responses import PlainTextResponse, StreamingResponse

from cog_adapt.server.api.own_runs import start_prediction
from cog_adapt.server.protocol import Output
from tests.cog_adapt.server.api.keeping import ADA
from tests.cog_adapt.waiting import until


def with_routes(site):
    """Two routes: one answers with the end, the other streams."""

    @site.app.post("/whole")
    async def whole(request: Request) -> PlainTextResponse:
        run = await start_prediction(request, await request.json())
        return PlainTextResponse(msgspec.json.encode(await run.ended()))

    @site.app.post("/pieces")
    async def pieces(request: Request) -> StreamingResponse:
        run = await start_prediction(request, await request.json())
        return StreamingResponse(run.outputs())

    @site.app.post("/begun")
    async def begun(request: Request) -> StreamingResponse:
        """Wait for the first piece, as a route does that gives failures a status of their own."""
        run = await start_prediction(request, await request.json())
        pieces = run.outputs()
        first = await anext(pieces, "")
        return StreamingResponse(chain(first, pieces))

    async def chain(first, pieces):
        yield first
        async for piece in pieces:
            yield piece

    return site


def test_a_route_gets_the_end_and_the_record_has_it(play):
    async def scene(site):
        asking = with_routes(site).asking("POST", "/whole", {"text": "a"})
        await until(lambda: site.model.runs)
        (name,) = site.model.runs
        site.put_out(name, b'"x"', b'"y"')
        body = json.loads((await asking).body)
        assert (body["id"], body["status"], body["output"]) == (name, "succeeded", ["x", "y"])

    play(scene)


def test_inputs_that_do_not_fit_are_refused_as_everywhere(play):
    async def scene(site):
        answer = await with_routes(site).ask("POST", "/whole", {"text": 3})
        assert answer.status == 422

    play(scene)


def test_half_a_surrogate_pair_is_the_callers_mistake(play):
    async def scene(site):
        answer = await with_routes(site).ask("POST", "/whole", {"text": chr(0xD800)})
        assert answer.status == 400
        assert b"cannot be written as JSON" in answer.body

    play(scene)


def test_the_prediction_is_the_keys_owners(play):
    async def scene(site):
        asking = with_routes(site).asking("POST", "/whole", {"text": "a"}, key=ADA)
        await until(lambda: site.model.runs)
        (found,) = site.harness.dispatcher.predictions.values()
        assert found.request.owner == "ada"
        site.put_out(found.run_id)
        assert (await asking).status == 200

    play(scene)


def test_a_client_that_leaves_cancels_it(play):
    async def scene(site):
        leave = asyncio.Event()
        asking = with_routes(site).asking("POST", "/pieces", {"text": "a"}, leave=leave)
        await until(lambda: len(site.harness.dispatcher.predictions) == 1)
        (found,) = site.harness.dispatcher.predictions.values()
        site.lead.on_report(Output(found.run_id, b'"x"'))
        await asyncio.sleep(0)
        leave.set()
        await until(lambda: found.is_cancelled)
        site.put_out(found.run_id, status="canceled")
        await asking

    play(scene)


@pytest.mark.parametrize("path", ["/whole", "/pieces", "/begun"])
def test_a_client_that_leaves_before_the_first_piece_cancels_it(play, path):
    async def scene(site):
        leave = asyncio.Event()
        asking = with_routes(site).asking("POST", path, {"text": "a"}, leave=leave)
        await until(lambda: len(site.harness.dispatcher.predictions) == 1)
        (found,) = site.harness.dispatcher.predictions.values()
        leave.set()
        await until(lambda: found.is_cancelled)
        site.put_out(found.run_id, status="canceled")
        await asyncio.wait_for(asking, 10)

    play(scene)


@pytest.mark.parametrize("path", ["/whole", "/pieces", "/begun"])
def test_one_that_waits_for_a_slot_goes_with_its_client_too(play, path):
    async def scene(site):
        site.asking("POST", "/predictions", {"input": {"text": "a"}})
        await until(lambda: site.model.runs)
        leave = asyncio.Event()
        asking = with_routes(site).asking("POST", path, {"text": "a"}, leave=leave)
        await until(lambda: len(site.harness.dispatcher.waiting) == 1)
        leave.set()
        await until(lambda: not site.harness.dispatcher.waiting)
        await asyncio.wait_for(asking, 10)
        site.put_out(site.model.runs[0])

    play(scene)
