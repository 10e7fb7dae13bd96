"""`ModelRunner`: the shared object that owns the model, for callers on any thread.

It hands work to the model thread and waits for it by short polls. A caller gets plain values,
adapters with CPU tensors, and reports.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import cached_property
from pathlib import Path
from typing import Any

from cog_adapt.adapter_rule import Asker
from cog_adapt.runner.adaptation.report import Step
from cog_adapt.runner.config import Recipe, RunnerSettings
from cog_adapt.runner.data.examples import Example
from cog_adapt.runner.inference.answers import Query
from cog_adapt.runner.known.adaptation_cache import AdaptationCache
from cog_adapt.runner.loading import files_of, load
from cog_adapt.runner.model.adaptation_memory import held_adaptations
from cog_adapt.runner.model.growing_answers import OnEnd
from cog_adapt.runner.model.loaded_model import Adaptation
from cog_adapt.runner.model.query_runner import Pieces, QueryRunner
from cog_adapt.runner.modules.adapters import Adapter, read_weights
from cog_adapt.runner.scheduling.admission import Admission
from cog_adapt.runner.scheduling.claims import Claims
from cog_adapt.runner.scheduling.reading import Reading
from cog_adapt.runner.scheduling.scheduler import Scheduler, once
from cog_adapt.runner.scheduling.tickets import Ticket
from cog_adapt.runner.selftest.report import SelfTestReport
from cog_adapt.runner.selftest.run import run_again, run_at_start
from cog_adapt.runner.storage.adapter_files import AdapterFiles
from cog_adapt.runner.storage.catalog import Adapters
from cog_adapt.runner.storage.checkpoint_folder import checkpoints_in, folder_of
from cog_adapt.runner.storage.store import store_of
from cog_adapt.runner.task.decoding import check_decoding
from cog_adapt.runner.task.task import Task
from gradient_check.phases.determinism import mode_of
from gradient_check.phases.precision import Precision

OnStep = Callable[[Step], None]
KEEP_EVERY = 20  # steps between two checkpoints of a run that survives a kill
_SELF_TEST_SECONDS = 600.0  # the self-test is one tick


class ModelRunner(AbstractContextManager["ModelRunner"]):
    """Runs one model on one thread.

    Args:
        task: the user's task.
        settings: the settings, which are read once, at the start.
        weights: the operator's COG_WEIGHTS: the path or URL of an adapter's file.

    Attributes:
        default: the adapter of requests that name no adapter; None without `weights`.
        reading: the reader of callers' large sources.
        self_test_report: the report of the last self-test; None before the first self-test.

    Raises:
        SetupError: the model or the weights cannot be loaded here.
    """

    def __init__(
        self, task: Task, settings: RunnerSettings | None = None, weights: str | None = None
    ) -> None:
        self.task = task
        self.settings = settings or RunnerSettings()
        self.default = read_weights(weights) if weights else None
        self._owner_key = self._admin_key = ""
        self.store = store_of(self.settings)
        self.checkpoints = folder_of(self.settings)
        self.store.decisions.watch(lambda _owner, made: self.checkpoints.drop(made.state))
        self.self_test_report: SelfTestReport | None = None
        self.scheduler = Scheduler()
        self.model = load(task, self.settings, scheduler=self.scheduler, store=self.store)
        self._queries = QueryRunner(
            task,
            predictions=self.model.predictions,
            scheduler=self.scheduler,
            settings=self.settings,
        )
        held = held_adaptations(self.precision.device, self.settings)
        self._admission = Admission(self.scheduler, held, self._queries.decoder.threads)
        self.cache = AdaptationCache(
            task,
            model=f"{self.base} {self.precision}{mode_of(self.precision.device)}",
            settings=self.settings,
            store=self.store,
        )
        self.reading = Reading()

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """End the model thread; waiting callers get `UnavailableError`."""
        stored = (self.checkpoints, self.cache, self.store)
        for part in (self.reading, self._queries.decoder, self.scheduler, *stored):
            part.close()

    def health(self) -> tuple[str, ...]:
        """Return why this runner must not be used; empty while all is well."""
        return self.model.damage

    def fatal_error(self) -> str | None:
        """Return why this process must be restarted; None if it need not be."""
        return self.model.base.device_failure or None

    def model_thread_beat(self) -> tuple[float, float]:
        """Return the running tick's age and its own limit, in seconds; 0 between ticks."""
        return self.scheduler.beat()

    @property
    def base(self) -> str:
        """The digest of the base's weights."""
        return self.model.base.digest

    @property
    def precision(self) -> Precision:
        """The device and compute dtype in use."""
        return self.model.base.precision

    def gauges(self) -> Mapping[str, Any]:
        """Return numbers for a server's metrics, histograms, and what is served as `info`."""
        parts = (self.model.predictions, self._admission, self._queries, self.store, self.cache)
        return {name: value for part in parts for name, value in part.gauges().items()}

    @cached_property
    def files(self) -> AdapterFiles:
        """The formats in which adapters of this base are written and read."""
        return files_of(self.task, self.model)

    @property
    def adapters(self) -> Adapters:
        """The adapters of all owners, for a server's routes."""
        return Adapters(
            store=self.store,
            files=self.files,
            forget=self.cache.forget,
            reading=self.reading.read,
            pause_unless=self.scheduler.pause.unless,
        )

    def kept_folders(self) -> tuple[Path, ...]:
        """Return the folder of stored adapters: a server that sends one leaves it there."""
        return (self.settings.weights_dir,)

    def read_owner_from(self, key: str) -> None:
        """Read owners from this key of a context; for a server that guards the key."""
        self._owner_key = key

    def read_admin_from(self, key: str) -> None:
        """Read the admin flag from this key of a context; called like `read_owner_from`."""
        self._admin_key = key

    def claim_through(self, claims: Claims) -> None:
        """Ask for a claim before each adaptation; for a server of several processes."""
        self.cache.claims = claims

    def asker_of(self, context: Mapping[str, str]) -> Asker:
        """Return the asker of a request with this context; owner "" without owners."""
        owner = context.get(self._owner_key, "") if self._owner_key else ""
        return Asker(owner, bool(owner and self._admin_key and context.get(self._admin_key)))

    def self_test(self, entry: Callable[..., object] | None = None) -> SelfTestReport:
        """Run the self-test; SELF_TEST sets the first's level. `entry` is a door to check."""
        run = run_again if self.self_test_report else run_at_start
        work = once(run, self.model, self.settings, entry)
        self.self_test_report = self.scheduler.submit_long(work, _SELF_TEST_SECONDS).wait()
        return self.self_test_report

    def predict(
        self,
        inputs: Sequence[Any],
        adapter: Adapter | None = None,
        labels: Sequence[str] = (),
        options: Any = None,  # noqa: ANN401 - the task's own class
    ) -> list[Any]:
        """Answer a `Query` of these parts (InputError, WeightsError if they do not fit)."""
        query = Query(inputs, adapter=adapter, labels=labels, options=options)
        return self._queries.answer(query)

    async def predict_async(self, query: Query) -> list[Any]:
        """Predict as `predict` does, from an event loop."""
        return await self._queries.answer_async(query)

    async def decoded_async(self, query: Query) -> Query:
        """Return a query with its inputs decoded, for repeated use; many inputs stay as sent."""
        return await self._queries.decoder.few_decoded(query)

    def generate_async(self, query: Query, on_end: OnEnd | None = None) -> Pieces:
        """Yield an answer's pieces, then call `on_end` with `Generation.facts`; leaving cancels."""
        return self._queries.stream(query, on_end)

    async def shortened_async(self, inputs: Sequence[Any], owner: str = "") -> Sequence[int]:
        """Ask `Task.shortened` on the model thread: a tokenizer takes one caller at a time."""
        return await self._queries.shortened(inputs, owner)

    def adapt(
        self,
        examples: Sequence[Example],
        recipe: Recipe | None = None,
        on_step: OnStep | None = None,
        *,
        begin: Adapter | None = None,
        checkpoint: Path | None = None,
    ) -> Adaptation:
        """Train an adapter on examples; the base stays as it is.

        Args:
            examples: the training examples.
            recipe: the defaults suit a few examples a label.
            on_step: called on this thread with each step taken.
            begin: an adapter to continue from, with its label set and method.
            checkpoint: file of an unfinished run's state, to continue from; the caller removes it.

        Raises:
            InputError: the examples or the recipe do not fit.
            AdaptationError: a step could not be taken.
        """
        check_decoding(self.task, (), examples)
        ticket = self.submit_adaptation(examples, recipe, begin=begin, checkpoint=checkpoint)
        return ticket.wait(_steps_only(on_step))

    def submit_adaptation(  # noqa: PLR0913 - what one adaptation is given
        self,
        examples: Sequence[Example],
        recipe: Recipe | None = None,
        *,
        begin: Adapter | None = None,
        checkpoint: Path | None = None,
        keep_every: int = KEEP_EVERY,
        owner: str = "",
        exact: bool = True,
    ) -> Ticket[Adaptation]:
        """Submit what `adapt` waits for; examples are not checked before.

        Args:
            examples: what to learn from.
            recipe: how.
            begin: an adapter to go on from.
            checkpoint: file of an unfinished run's state.
            keep_every: steps between two states of it.
            owner: pays for the model thread's time.
            exact: whether kept features are left out; their last bits are of another batch.
        """
        folder = self.checkpoints
        states = None if checkpoint is None else checkpoints_in(folder, checkpoint, keep_every)
        kept = None if exact else self.cache.kept.of(owner)
        work = self.model.adapting(
            examples, recipe or Recipe(), begin=begin, checkpoints=states, kept=kept
        )
        return self._admission.submit(kept.guarding(work) if kept else work, owner)


def _steps_only(on_step: OnStep | None) -> Callable[[object], None] | None:
    if on_step is None:
        return None
    return lambda progress: on_step(progress) if isinstance(progress, Step) else None
