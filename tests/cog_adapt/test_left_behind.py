"""A test run that is killed leaves no server behind."""

import shutil
import subprocess
import sys

import pytest

from tests.cog_adapt.forks import REPOSITORY
from tests.cog_adapt.server.worker.conftest import is_alive
from tests.cog_adapt.waiting import wait_until

RUN = """
import subprocess
import sys
from pathlib import Path

from tests.cog_adapt.contract.serving import serving

with serving(sys.argv[1], Path(sys.argv[2]), predict="functions.py:shout") as server:
    command = ["ps", "-o", "pid=", "-s", str(server.process.pid)]
    its = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    print(*its, *server.workers(), flush=True)
    sys.stdin.read()
"""


@pytest.mark.skipif(shutil.which("setpriv") is None, reason="no setpriv, of util-linux")
@pytest.mark.parametrize("flavour", ["coglet", "mirror"])
def test_servers_and_their_models_end_with_the_process_that_started_them(tmp_path, flavour):
    command = [sys.executable, "-c", RUN, flavour, str(tmp_path)]
    with subprocess.Popen(
        command, cwd=REPOSITORY, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as run:
        assert run.stdout is not None
        pids = [int(each) for each in run.stdout.readline().split()]
        assert len(pids) > 1
        run.kill()
    wait_until(lambda: not any(map(is_alive, pids)))
