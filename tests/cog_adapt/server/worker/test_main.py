"""How a worker sets up, listens and ends."""

import os
import signal
from pathlib import Path

import pytest

from cog_adapt.server.protocol import (
    AskGauges,
    AskHealth,
    AskSelfTest,
    Described,
    Finished,
    Gauges,
    Health,
    Log,
    Ready,
    SelfTested,
    SetupFailed,
    SetupLog,
)
from tests.cog_adapt.server.worker.conftest import SECONDS, Reports, is_alive
from tests.cog_adapt.waiting import wait_until

SOURCE = """
    import subprocess, time
    from cog import Path

    def run(code: str = "", file: Path | None = None) -> str:
        exec(code, globals() | {"file": file})
        return "done"
"""


def test_it_ends_with_the_front_amid_a_run_and_takes_programs_and_input_files_along(launch):
    front = launch(SOURCE, reference="predictor.py:run", prefix="tmptest_")
    ignores = "['sh', '-c', 'trap \"\" TERM; echo; sleep 100'], stdout=subprocess.PIPE"
    begin = f"p = subprocess.Popen({ignores}); p.stdout.readline()"
    code = f"{begin}; print(p.pid, file)\nwhile True: pass"
    front.start(code=code, file="data:text/plain,hello")
    pid, _, path = Reports(front.hear_until(Log)).logs.strip().partition(" ")
    file = Path(path)
    assert (file.name, file.read_text()) == (f"tmptest_{file.name[8:]}", "hello")
    front.close()
    front.process.join(SECONDS)
    assert front.process.exitcode == 1
    assert not file.exists()
    wait_until(lambda: not is_alive(int(pid)))


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
    assert '"event":"child"' in capfd.readouterr().err


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


def test_a_setup_that_fails_its_self_test_tells_what_that_found(launch):
    front = launch(
        """
        class Report:
            def to_json(self): return {"passed": False, "reports": []}

        class Tested:
            self_test_report = None
            def self_test(self):
                self.self_test_report = Report()
                raise ValueError("no gradient")

        class Runner:
            def setup(self):
                self.held = Tested()
                self.held.self_test()

            def run(self) -> str: return ""
        """,
        ready=False,
    )
    failed = front.hear_until(Ready, SetupFailed)[-1]
    assert failed == SetupFailed("ValueError: no gradient", b'{"passed":false,"reports":[]}')


def test_it_answers_and_takes_cancels_while_it_sets_up(launch, tmp_path):
    gate = tmp_path / "gate"
    source = f"""
        import pathlib, sys, time
        class Runner:
            def setup(self):
                print("there")
                while not pathlib.Path({str(gate)!r}).exists():
                    time.sleep(0.01)
            def run(self) -> bool:
                return "torch" in sys.modules
            def healthcheck(self):
                return False
    """
    front = launch(source, ready=False)
    assert isinstance(front.hear_until(SetupLog)[0], Described)
    front.cancel()
    front.ask(AskHealth())
    assert front.hear() == Health()
    front.ask(AskSelfTest())
    assert front.hear() == SelfTested()
    front.ask(AskGauges())
    assert front.hear().values.keys() == {"process_memory_bytes"}
    gate.touch()
    assert front.set_up() == Ready(None, has_healthcheck=True)
    assert front.run().output is False


OFFERING = """
    import json, time

    class Report:
        def to_json(self):
            return {"passed": True}

    class Runner:
        self_test_report = None
        async def setup(self):
            self.self_test_report = Report()
        def read_owner_from(self, key):
            assert self.self_test_report is not None
            self.key = key
        def gauges(self):
            print("gauges")
            return {"rows": 3}
        def self_test(self):
            print("self-test")
            return Report()
        def healthcheck(self):
            print("health")
            return False
        def run(self) -> str:
            print("go")
            time.sleep(1)
            return self.key
"""


@pytest.mark.parametrize("name", ["run", "healthcheck"])
def test_what_the_predictor_offers_is_asked_and_prints_into_no_logs(launch, name):
    front = launch(OFFERING.replace(f"def {name}", f"async def {name}"), ready=False)
    assert front.set_up() == Ready(b'{"passed":true}', has_healthcheck=True)
    front.start()
    heard = front.hear_until(Log)
    for request, answer in ((AskGauges(), Gauges), (AskSelfTest(), SelfTested)):
        front.ask(request)
        heard += front.hear_until(answer)
    assert heard[-2].values["rows"] == 3.0
    assert heard[-1].report == b'{"passed":true}'
    front.ask(AskHealth())
    heard += front.hear_until(Health, Finished)
    reports = Reports(heard + front.hear_until(Finished))
    assert reports.logs == "go\n"
    assert reports.output == "cog_adapt.owner"
    assert Health("Healthcheck failed: user-defined healthcheck returned False") in heard
