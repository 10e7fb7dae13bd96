"""What one server removes or changes while another is down stays so once that one runs again."""

import hashlib
import os
import signal
import textwrap
from contextlib import ExitStack
from functools import partial

import pytest

from tests.cog_adapt.contract.serving import serving
from tests.cog_adapt.test_adapter_changes_reach_all import ADA, BOB, CODE, KEYS, ask, change
from tests.cog_adapt.waiting import wait_for

pytest.importorskip("obstore", reason="obstore is not installed")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("apart")


@pytest.fixture(scope="module")
def begin(folder):
    """Start servers of one database and one store, each with a local folder of its own."""
    (folder / "learner.py").write_text(textwrap.dedent(CODE))
    lines = [f"{who} {hashlib.sha256(key.encode()).hexdigest()}" for key, who in KEYS.items()]
    (folder / "keys").write_text("\n".join(lines))
    env = {"API_KEYS_FILE": str(folder / "keys"), "ADAPTER_STORE": f"file://{folder}/far"}

    def begun(stack, name):
        own = env | {"WEIGHTS_DIR": str(folder / name)}
        opened = serving("mirror", folder, predict="learner.py:Learner", env=own, until="up")
        return stack.enter_context(opened)

    return begun


def until_ready(*servers):
    for each in servers:
        wait_for(partial(_is_ready, each), 120)


def _is_ready(server):
    return server.get("/readyz", headers=ADA).status_code == 200 or None


@pytest.mark.timeout(300)
def test_what_is_removed_unshared_or_named_anew_while_a_server_is_down_stays_so(begin, folder):
    with ExitStack() as stack:
        here, there = (begin(stack, name) for name in ("here", "there"))
        until_ready(here, there)
        gone, kept = (ask(here, "predictions", ADA, learn=number) for number in (1, 2))
        for name, made in (("gone", gone), ("kept", kept)):
            change(here, made, name=name, shared=["bob"])
            assert ask(there, "predictions", BOB, adapter=name) == made
        os.kill(there.process.pid, signal.SIGKILL)
        there.process.wait(30)
        assert here.request("DELETE", "/adapters/gone", headers=ADA).status_code == 200
        change(here, kept, name="other", shared=[])
        anew = ask(here, "predictions", ADA, learn=3)
        change(here, anew, name="gone")
        again = begin(stack, "there")
        until_ready(again)
        for reference in (gone, "gone@v1", "kept"):
            assert ask(again, "predictions", ADA, adapter=reference) is None
        for reference in (gone, kept, "gone", "other"):
            assert ask(again, "predictions", BOB, adapter=reference) is None
        assert ask(again, "predictions", ADA, adapter="gone") == anew
        assert ask(again, "predictions", ADA, adapter="other") == kept
        for server in (here, again):
            listed = server.get("/adapters", headers=ADA).json()["results"]
            assert gone not in {each["id"] for each in listed}
            assert {each["id"]: each["name"] for each in listed} == {kept: "other", anew: "gone"}
        assert [*folder.glob(f"*/**/{gone}*")] == []
