"""A worker that keeps adapters, as the front hears of it."""

import asyncio

import msgspec

from cog_adapt.adapter_rule import Asker
from cog_adapt.server.adapter_messages import AdapterChanged, AdaptersListed
from cog_adapt.server.protocol import Ready
from cog_adapt.server.records.adapter_pages import AdapterQuery
from cog_adapt.server.service.adapter_link import AdapterLink
from cog_adapt.server.service.adapters import AdapterService
from tests.cog_adapt.server.service.harness import Harness

ADA = Asker("ada")


class Keeper:
    """A worker that says things."""

    def __init__(self, harness):
        self.lead, self.trainer = harness.dispatcher.lead, harness.trainings.lead
        self.trainer_process = harness.played["train"]
        self.lead.adapters = AdapterLink(lambda _: False)  # it says things, and answers nothing
        self.lead.ready = Ready(has_adapters=True)
        self.model = harness.model
        self.records = harness.records
        self.adapters = AdapterService(harness.service)

    def change(self, name, **more):
        self.lead.on_report(AdapterChanged("ada", name, encoded(described(name, **more))))

    def forget(self, name):
        self.lead.on_report(AdapterChanged("ada", name, None))

    def say_all(self, *names, is_whole=True):
        found = [described(name) for name in names]
        self.lead.on_report(AdaptersListed(encoded(found), is_last=False))
        self.lead.on_report(AdaptersListed(b"[]", is_last=True, is_whole=is_whole))

    async def ids(self):
        await asyncio.sleep(0)  # a request comes later than what was said before
        page = await self.adapters.page(ADA, AdapterQuery.of(100, None))
        return sorted(msgspec.json.decode(each)["id"] for each in page.adapters)


def described(name, **more):
    return {"id": name, "owner": "ada", "created_at": None} | more


encoded = msgspec.json.encode


def player(folder):
    """Run scenes with a keeper of their own."""

    def run(scene, **settings):
        async def story():
            harness = Harness(folder, **settings)
            await harness.records.register()
            keeper = Keeper(harness)
            try:
                await asyncio.wait_for(scene(keeper), 30)
            finally:
                await keeper.adapters.settle()
                await harness.webhooks.close()
                await harness.records.close()

        asyncio.run(story())

    return run
