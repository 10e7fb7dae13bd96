"""How a model process ends."""

import os
import signal
from pathlib import Path

import pytest

from cog_adapt.server.protocol import Finished, Log
from tests.cog_adapt.server.worker.conftest import SECONDS, Reports, is_alive, wait_until

SOURCE = """
    import subprocess, time

    def run(code: str = "") -> str:
        exec(code, globals())
        return "done"
"""


def test_it_ends_with_the_front_in_the_middle_of_a_run_and_takes_programs_along(launch):
    front = launch(SOURCE, reference="predictor.py:run")
    front.start(
        code="p = subprocess.Popen(['sleep', '100']); print(p.pid)\nwhile True: pass",
    )
    pid = int(Reports(front.hear_until(Log)).logs)
    front.close()
    front.process.join(SECONDS)
    assert front.process.exitcode == 1
    wait_until(lambda: not is_alive(pid))


def test_input_files_go_with_it(launch):
    source = """
        import time
        from cog import Path

        def run(file: Path) -> str:
            print(file)
            time.sleep(100)
    """
    front = launch(source, reference="predictor.py:run", prefix="tmptest_")
    front.start(file="data:text/plain,hello")
    file = Path(Reports(front.hear_until(Log)).logs.strip())
    assert (file.name, file.read_text()) == (f"tmptest_{file.name[8:]}", "hello")
    front.close()
    front.process.join(SECONDS)
    assert not file.exists()


def test_it_ends_with_the_front_in_the_middle_of_setup(launch):
    front = launch("import time\nprint('there')\ntime.sleep(100)", ready=False)
    front.hear()
    front.close()
    front.process.join(SECONDS)
    assert front.process.exitcode == 1


@pytest.mark.parametrize(
    "start",
    [
        "import os; pid = os.fork()\nif not pid: time.sleep(60); os._exit(0)",
        "pid = subprocess.Popen(['sleep', '60'], close_fds=False).pid",
    ],
)
def test_a_process_of_the_model_does_not_keep_the_channel_open(launch, start):
    front = launch(SOURCE, reference="predictor.py:run")
    child = int(front.run(code=f"{start}\nprint(pid)").logs)
    try:
        os.kill(front.process.pid, signal.SIGKILL)
        assert front.socket.recv(1) == b""
    finally:
        os.kill(child, signal.SIGKILL)


def test_a_fork_prints_to_the_servers_log(launch, capfd):
    front = launch(SOURCE, reference="predictor.py:run")
    code = "import os; pid = os.fork()\nif not pid: print('child', flush=True); os._exit(0)"
    assert front.run(code=f"{code}\nos.waitpid(pid, 0)").logs == ""
    assert "child\n" in capfd.readouterr().err


def test_it_outlives_ctrl_c_and_ends_on_stop_after_its_run(launch):
    front = launch(SOURCE, reference="predictor.py:run")
    front.start(code="print('go'); time.sleep(0.2)")
    front.hear_until(Log)
    for number in (signal.SIGINT, signal.SIGTERM):
        os.kill(front.process.pid, number)
    front.stop()
    assert Reports(front.hear_until(Finished)).output == "done"
    front.process.join(SECONDS)
    assert front.process.exitcode == 0


def test_a_program_that_the_model_starts_is_ended_by_the_usual_signals(launch):
    front = launch(SOURCE, reference="predictor.py:run")
    code = """
import multiprocessing, warnings
warnings.simplefilter("ignore")
one = multiprocessing.get_context("fork").Process(target=time.sleep, args=(100,))
one.start(); one.terminate(); one.join(5)
two = subprocess.Popen(["sleep", "100"])
two.terminate(); two.wait(5)
print(one.exitcode, two.returncode)
"""
    assert front.run(code=code).logs == "-15 -15\n"
