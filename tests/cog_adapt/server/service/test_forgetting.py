"""What becomes of the adapters that a forgotten prediction made, and of what waits in memory."""

from typing import Any

import msgspec
import pytest

from cog_adapt.server.errors import NotEnded, NotFound, NotReady
from cog_adapt.server.protocol import OWNER_KEY, Finished, Metric, Output
from cog_adapt.server.service.forgetting import Forgetting, decision_of, made_adapters
from tests.cog_adapt.server.records.home import make_record

ID = "0f" * 16
STEP = '{"adaptation":{"step":3}}'


class Keeper:
    """Stands for the predictor's adapters."""

    def __init__(self, **metadata: Any) -> None:
        self.forgotten: list[tuple[str, str]] = []
        self.faults: list[Exception] = []
        self.reached: set[tuple[str, str]] | None = None
        self.kept = {("ann", ID): {"id": ID, "owner": "ann", **metadata}}

    async def find_own(self, owner, adapter_id=None):
        return [
            each
            for (whose, name), each in self.kept.items()
            if whose == owner and adapter_id in (None, name)
        ]

    async def remove(self, adapter):
        if self.faults:
            raise self.faults.pop()
        del self.kept[adapter["owner"], adapter["id"]]

    async def forget(self, owner, key=""):
        self.forgotten.append((owner, key))

    async def reach_all(self):
        self.reached = {*self.kept}


@pytest.mark.parametrize(
    ("metrics", "output", "made"),
    [
        (STEP, f'{{"adapter":"{ID}"}}', [ID]),
        (f'{{"adaptation":{{"step":1,"adapter":"{ID}"}}}}', None, [ID]),
        ("{}", f'{{"adapter":"{ID}"}}', []),
        (f'{{"adaptation":{{"adapter":"{ID}"}}}}', None, []),
        ('{"adaptation":{"receipt":{}}}', f'{{"adapter":"{ID}"}}', [ID]),
        (STEP, '{"adapter":null}', []),
        (STEP, '{"adapter":7}', []),
        (STEP, '["x"]', []),
        ('{"adaptation":1}', None, []),
    ],
)
def test_what_took_steps_has_made_the_adapter_that_it_names(metrics, output, made):
    assert made_adapters(make_record(metrics=metrics, output=output)) == made


async def ended(harness, name, owner="ann", metric=("adaptation.step", 1), adapter=ID):
    await harness.submit(name, durable=False, context={OWNER_KEY: owner})
    run_id, lead = f"{owner}/{name}", harness.dispatcher.lead
    lead.on_report(Metric(run_id, metric[0], msgspec.json.encode(metric[1])))
    lead.on_report(Output(run_id, msgspec.json.encode({"adapter": adapter})))
    lead.on_report(Finished(run_id, "succeeded"))
    await harness.flush()


@pytest.mark.parametrize(
    ("metadata", "becomes"),
    [
        ({}, "removed"),
        ({"name": None, "pinned": False, "shared": []}, "removed"),
        ({"name": "support"}, "kept: named"),
        ({"pinned": True}, "kept: pinned"),
        ({"shared": ["*"]}, "kept: shared"),
    ],
)
def test_an_adapter_goes_with_what_made_it_unless_it_is_of_use(play, metadata, becomes):
    async def scene(harness):
        await ended(harness, "a")
        keeper = Keeper(**metadata)
        forgetting = Forgetting(harness.service, harness.webhooks, keeper)
        forgotten = await forgetting.forget("a", "predict", "ann")
        assert (forgotten.predictions, forgotten.adapters) == (1, {ID: becomes})
        assert bool(keeper.kept) is (becomes != "removed")
        assert keeper.reached == {*keeper.kept}  # other servers were waited for, afterwards

    play(scene)


def test_an_adapter_that_another_of_ones_predictions_made_or_uses_stays(play):
    async def scene(harness):
        keeper = Keeper()
        forgetting = Forgetting(harness.service, harness.webhooks, keeper)
        for name, owner in (("a", "ann"), ("b", "ann"), ("a", "bob")):
            await ended(harness, name, owner)
        used = "kept: another prediction made or uses it"
        assert (await forgetting.forget("a", "predict", "ann")).adapters == {ID: used}
        asks = msgspec.json.encode({"adapter": ID})
        request = {"durable": False, "context": {OWNER_KEY: "ann"}}
        running = await harness.submit("c", **request)
        running.request = msgspec.structs.replace(running.request, input=asks)
        assert (await forgetting.forget("b", "predict", "ann")).adapters == {ID: used}
        assert (await forgetting.forget("a", "predict", "bob")).adapters == {ID: "gone before"}
        assert keeper.kept

    play(scene)


KEYED = '{"adaptation":{"receipt":{"adapter":%s,"key":"%s"}}}'


@pytest.mark.parametrize(
    ("metrics", "key"),
    [
        (KEYED % ("null", "k1"), "k1"),
        (KEYED % ('{"id":"a"}', "k1"), None),
        (KEYED % ("null", ""), None),
        ('{"adaptation":{"receipt":1}}', None),
        ('{"adaptation":1}', None),
        ("{}", None),
    ],
)
def test_that_the_base_answers_is_a_decision_with_a_key(metrics, key):
    assert decision_of(make_record(metrics=metrics)) == key


def test_a_decision_without_an_adapter_goes_with_the_last_that_was_told_it(play):
    async def scene(harness):
        keeper = Keeper()
        forgetting = Forgetting(harness.service, harness.webhooks, keeper)
        for name in ("a", "b"):
            receipt = {"adapter": None, "key": "k1"}
            await ended(harness, name, metric=("adaptation.receipt", receipt), adapter=None)
        await forgetting.forget("a", "predict", "ann")
        assert keeper.forgotten == []
        await forgetting.forget("b", "predict", "ann")
        assert keeper.forgotten == [("ann", "k1")]

    play(scene)


def test_events_and_webhooks_in_memory_are_dropped_for_this_owner_only(play):
    async def scene(harness):
        for owner in ("ann", "bob"):
            await harness.submit(
                "a", context={OWNER_KEY: owner}, webhook="https://h/", durable=True
            )
            await harness.recorder.flush()
            harness.dispatcher.lead.on_report(Finished(f"{owner}/a", "succeeded"))
        forgetting = Forgetting(harness.service, harness.webhooks, Keeper())
        await forgetting.forget("a", "predict", "ann")
        assert harness.service.find_cached("a", "predict", "ann") is None
        assert harness.service.find_cached("a", "predict", "bob") is not None

    play(scene)


def test_what_runs_or_is_unknown_is_refused(play):
    async def scene(harness):
        forgetting = Forgetting(harness.service, harness.webhooks, Keeper())
        await harness.submit("a", context={OWNER_KEY: "ann"})
        with pytest.raises(NotEnded):
            await forgetting.forget("a", "predict", "ann")
        with pytest.raises(NotFound):
            await forgetting.forget("a", "predict", "bob")
        with pytest.raises(NotEnded, match="1 predictions of 'ann'"):
            await forgetting.forget_all("ann", ["predict"])
        assert (await forgetting.forget_all("bob", ["predict", "train"])).predictions == 0

    play(scene)


def test_what_fails_in_the_middle_is_done_when_it_is_asked_for_again(play):
    async def scene(harness):
        await ended(harness, "a")
        keeper, others = Keeper(), ("1a" * 16, "2b" * 16)
        for name in others:
            keeper.kept["ann", name] = {"id": name, "owner": "ann"}
        forgetting = Forgetting(harness.service, harness.webhooks, keeper)
        await keeper.remove({"id": ID, "owner": "ann"})
        keeper.faults.append(NotReady("the worker is down"))
        with pytest.raises(NotReady):
            await forgetting.forget_all("ann", ["predict", "train"])
        assert await harness.records.get("a", "predict", "ann") is None
        assert len(keeper.kept) == 2
        keeper.faults.append(NotFound("there is no adapter"))
        again = await forgetting.forget_all("ann", ["predict", "train"])
        assert again.adapters == {others[0]: "gone before", others[1]: "removed"}

    play(scene)


def test_all_of_an_owner_are_the_adapters_too_named_ones_with_them(play):
    async def scene(harness):
        await ended(harness, "a")
        keeper = Keeper(name="support", pinned=True)
        keeper.kept["bob", ID] = {"id": ID, "owner": "bob"}
        forgetting = Forgetting(harness.service, harness.webhooks, keeper)
        assert (await forgetting.forget_all("ann", ["train"])).adapters == {}
        forgotten = await forgetting.forget_all("ann", ["predict", "train"])
        assert (forgotten.predictions, forgotten.adapters) == (1, {ID: "removed"})
        assert [*keeper.kept] == [("bob", ID)]
        assert keeper.forgotten == [("ann", "")]

    play(scene)
