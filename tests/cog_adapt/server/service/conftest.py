"""Runs scenes on an event loop."""

import asyncio

import pytest

from tests.cog_adapt.server.service.harness import Harness


@pytest.fixture
def short_sleeps(monkeypatch):
    """Lets a pause of seconds take a twentieth of one."""
    sleep = asyncio.sleep
    monkeypatch.setattr(asyncio, "sleep", lambda seconds: sleep(seconds if seconds < 1 else 0.05))


@pytest.fixture
def play(tmp_path):
    """Runs a scene with dispatchers on a database of their own."""

    def run(scene, **settings):
        async def story():
            harness = Harness(tmp_path, **settings)
            await harness.records.register()
            try:
                await asyncio.wait_for(scene(harness), 30)
            finally:
                await harness.webhooks.close()
                await harness.records.close()

        asyncio.run(story())

    return run
