"""What mends findings of the red team, and what takes each mend away."""

from typing import NamedTuple

from bench.house.mutants import Mutant

_RUNNER, _SERVER, _TESTS = "cog_adapt/runner", "cog_adapt/server", "tests/cog_adapt"


class Break(NamedTuple):
    """What takes the mend of a finding away, as in `Mutant`, and the tests that must see it."""

    finding: str
    what: str
    path: str
    old: str
    new: str
    tests: str

    @property
    def mutant(self) -> Mutant:
        """The same, to be planted."""
        return Mutant(self.what, self.path, self.old, self.new)


BREAKS = (
    Break(
        "C2",
        "a request's files are read on the event loop",
        f"{_RUNNER}/requests/few_shot.py",
        "await runner.reading.read_async(asker.owner, read, is_large=large)",
        "read()",
        f"{_TESTS}/runner/test_few_shot.py",
    ),
    Break(
        "C2",
        "the runner may open an address of a caller",
        f"{_RUNNER}/request.py",
        "import os\n",
        "import os\nimport urllib.request  # noqa: F401\n",
        f"{_TESTS}/runner/test_few_shot.py",
    ),
    Break(
        "C2",
        "a text of a caller is taken for a fetched file",
        f"{_RUNNER}/request.py",
        "if not isinstance(value, os.PathLike):",
        "if not isinstance(value, os.PathLike | str):",
        f"{_TESTS}/runner/test_request.py",
    ),
    Break(
        "C2",
        "brackets, commas and lines are not counted",
        f"{_RUNNER}/data/examples.py",
        "    _refuse_crowd(text, limits)\n",
        "",
        f"{_TESTS}/runner/data/test_examples.py",
    ),
    Break(
        "H1",
        "a death is seen by a pipe that forks hold open",
        f"{_SERVER}/service/worker_process.py",
        "return os.pidfd_open(process.pid or 0)",
        "raise OSError",
        f"{_TESTS}/server/service/test_worker_process.py",
    ),
    Break(
        "H1",
        "the end of the socket is no death",
        f"{_SERVER}/service/worker_process.py",
        "self._loop.call_later(_SECONDS_TO_EXIT, self.kill, cause)",
        "pass",
        f"{_TESTS}/server/service/test_worker_process.py",
    ),
    Break(
        "H1",
        "a death leaves the forks alive",
        f"{_SERVER}/service/worker_process.py",
        "            end_session(self._process.pid)  # before it",
        "            pass  # before it",
        f"{_TESTS}/server/service/test_worker_process.py",
    ),
    Break(
        "H1",
        "a kill leaves the session alive",
        f"{_SERVER}/worker/processes.py",
        "_signal({leader} | below | _session(leader), signal.SIGKILL)",
        "_signal({leader}, signal.SIGKILL)",
        f"{_TESTS}/server/worker/test_processes.py",
    ),
    Break(
        "H1",
        "forks outlive a server that is killed",
        f"{_SERVER}/worker/guard.py",
        "            end_session(worker)\n",
        "",
        f"{_TESTS}/faults/test_model_hangs.py",
    ),
    Break(
        "H4",
        "silence is never long enough",
        f"{_SERVER}/service/heartbeat.py",
        "self._silence += self._period",
        "self._silence += 0",
        f"{_TESTS}/faults/test_model_hangs.py",
    ),
    Break(
        "H4",
        "a model thread may take any time for a tick",
        f"{_SERVER}/service/worker_process.py",
        "            self._heartbeat.on_beat(report)\n",
        "",
        f"{_TESTS}/server/service/test_worker_process.py",
    ),
    Break(
        "H4",
        "the worker does not tell of its model thread",
        f"{_SERVER}/worker/main.py",
        "        heartbeat.watch(read_model_threads(predictor.instance))\n",
        "",
        f"{_TESTS}/server/service/test_worker_process.py",
    ),
    Break(
        "H4",
        "a cancel without effect is the end of it",
        f"{_SERVER}/service/dispatcher.py",
        "insist_later(prediction, self.workers, self._settings.cancel_grace_seconds)\n",
        "pass\n",
        f"{_TESTS}/server/service/test_dispatcher.py",
    ),
    Break(
        "H7",
        "a cancel leaves the connections open",
        f"{_SERVER}/worker/downloads.py",
        "            transfer.abort()\n",
        "            pass\n",
        f"{_TESTS}/server/worker/test_downloads.py",
    ),
    Break(
        "H7",
        "all predictions share the threads",
        f"{_SERVER}/worker/downloads.py",
        'self._pool = ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="download")',
        "self._pool = vars(self._downloads).setdefault('pool', ThreadPoolExecutor(8, 'download'))",
        f"{_TESTS}/server/worker/test_downloads.py",
    ),
    Break(
        "H7",
        "a file may take any time",
        f"{_SERVER}/worker/downloads.py",
        "Transfer(_SECONDS, self._config.download_seconds)",
        "Transfer(_SECONDS)",
        f"{_TESTS}/server/worker/test_downloads.py",
    ),
    Break(
        "M1",
        "a list shows the records of all",
        f"{_SERVER}/records/pages.py",
        "query = query.where(records.c.owner == self.owner)",
        "pass",
        f"{_TESTS}/server/api/test_owners_walk.py",
    ),
    Break(
        "M1",
        "an id leads to anybody's record",
        f"{_SERVER}/records/reader.py",
        "select(records).where(*(column == value for column, value in key))",
        'select(records).where(*(c == v for c, v in key if c.name != "owner"))',
        f"{_TESTS}/server/api/test_ownership.py",
    ),
    Break(
        "M1",
        "an id leads to anybody's running prediction",
        f"{_SERVER}/service/dispatcher.py",
        "return self.predictions.get((self.kind, prediction_id, owner))",
        "return next((v for k, v in self.predictions.items() if k[1] == prediction_id), None)",
        f"{_TESTS}/server/api/test_ownership.py",
    ),
    Break(
        "M1",
        "cached events are anybody's",
        f"{_SERVER}/service/event_cache.py",
        "return self._ended.get((owner, name))",
        "return next((each for (_, id_), each in self._ended.items() if id_ == name), None)",
        f"{_TESTS}/server/api/test_owners_walk.py",
    ),
    Break(
        "M1",
        "every key sees what an admin sees",
        f"{_SERVER}/api/dependencies.py",
        'sees_all=key.opens("admin")',
        "sees_all=True",
        f"{_TESTS}/server/api/test_ownership.py",
    ),
    Break(
        "M1",
        "deliveries of an id are anybody's",
        f"{_SERVER}/records/queries.py",
        "            deliveries.c.owner == owner,\n",
        "",
        f"{_TESTS}/server/api/test_owners_walk.py",
    ),
    Break(
        "M1",
        "adapters are found for every key",
        f"{_SERVER}/records/adapter_pages.py",
        "return or_(adapters.c.owner == asker.owner, place.in_(shared))",
        "return or_(adapters.c.owner == adapters.c.owner, place.in_(shared))",
        f"{_TESTS}/test_adapters_served.py",
    ),
    Break(
        "M1",
        "the model process is not told whose a run is",
        f"{_SERVER}/api/requests.py",
        '    return owned(context, key.owner, is_admin=key.opens("admin"))\n',
        '    return owned(context, "")\n',
        f"{_TESTS}/test_adapters_served.py",
    ),
    Break(
        "M1",
        "adapters in the model process have one owner",
        f"{_RUNNER}/requests/few_shot.py",
        "asker = runner.asker_of(scope.context if scope else {})",
        "asker = Asker()",
        f"{_TESTS}/runner/test_few_shot.py",
    ),
)
