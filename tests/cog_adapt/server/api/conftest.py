"""Runs scenes with the endpoints of one server."""

import asyncio

import pytest

from tests.cog_adapt.server.api.site import Site


@pytest.fixture
def play(tmp_path):
    """Runs a scene with a site of its own; settings are given by name."""

    def run(scene, **settings):
        async def story():
            site = Site(tmp_path, **settings)
            await site.harness.records.register()
            try:
                await asyncio.wait_for(scene(site), 30)
            finally:
                await site.app.state.parts.adapters.settle()
                await site.harness.webhooks.close()
                await site.harness.records.close()

        asyncio.run(story())

    return run
