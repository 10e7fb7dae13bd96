"""`ModelRunner`: the shared object that owns the model, for callers on any thread.

It hands work to the model thread and waits for it by short polls. What a caller gets is plain
values, adapters with CPU tensors, and reports.
"""

from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import AbstractContextManager, aclosing
from pathlib import Path
from typing import Any

from cog_adapt.adapter_rule import Asker
from cog_adapt.runner.adaptation.report import Step
from cog_adapt.runner.config import Recipe, RunnerSettings
from cog_adapt.runner.data.examples import Example
from cog_adapt.runner.inference.answers import Query, find_shortened
from cog_adapt.runner.inference.growing import GenerativeTask
from cog_adapt.runner.known.knowledge import AdaptationCache
from cog_adapt.runner.loading import load
from cog_adapt.runner.model.growing_answers import GrowingAnswers, OnEnd
from cog_adapt.runner.model.input_decoder import InputDecoder
from cog_adapt.runner.model.loaded_model import Adaptation, held_adaptations
from cog_adapt.runner.modules.adapters import Adapter, read_weights
from cog_adapt.runner.scheduling.admission import Admission
from cog_adapt.runner.scheduling.reading import Reading
from cog_adapt.runner.scheduling.scheduler import Scheduler, once
from cog_adapt.runner.scheduling.tickets import Ticket
from cog_adapt.runner.selftest.report import SelfTestReport
from cog_adapt.runner.selftest.run import run_again, run_at_start
from cog_adapt.runner.storage.catalog import Adapters
from cog_adapt.runner.storage.checkpoint_folder import checkpoints_in, folder_of
from cog_adapt.runner.storage.peft_format import PeftFormat
from cog_adapt.runner.storage.store import store_of
from cog_adapt.runner.task.decoding import check_decoding
from cog_adapt.runner.task.input_sizes import check_characters
from cog_adapt.runner.task.task import Task
from gradient_check.phases.determinism import mode_of
from gradient_check.phases.precision import Precision

OnStep = Callable[[Step], None]
Pieces = AsyncGenerator[Any, None]
KEEP_EVERY = 20  # steps between two states of a run that survives being killed
_SELF_TEST_SECONDS = 600.0  # one tick


class ModelRunner(AbstractContextManager["ModelRunner"]):
    """One model, one thread.

    Args:
        task: what the user wrote for the model.
        settings: read once, at the door.
        weights: COG_WEIGHTS, the operator's own: a path or URL of an adapter's file.

    Attributes:
        default: the adapter of requests that name none; None without `weights`.
        model: what was loaded; only the model thread may work with it.
        scheduler: of the model thread.
        reading: what reads large sources of callers.
        self_test_report: of the last self-test; None before the first.

    Raises:
        SetupError: the model or the weights cannot be loaded here.
    """

    def __init__(
        self, task: Task, settings: RunnerSettings | None = None, weights: str | None = None
    ) -> None:
        self.task, self.settings = task, settings or RunnerSettings()
        self.default = read_weights(weights) if weights else None
        self._owner_key = self._admin_key = ""
        self.store, self.checkpoints = store_of(self.settings), folder_of(self.settings)
        self.store.decisions.watch(lambda _owner, made: self.checkpoints.drop(made.state))
        self.self_test_report: SelfTestReport | None = None
        self.scheduler = Scheduler()
        self.model = load(task, self.settings, self.scheduler, self.store)
        self._decoder = InputDecoder(task)
        held = held_adaptations(self.model, self.settings)
        self._admission = Admission(self.scheduler, held, self._decoder.thread)
        self._growing = GrowingAnswers(self.model.predictions, self.scheduler, self.settings)
        self.knowledge, self.reading = _knowledge_of(self), Reading()

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """End the model thread; whoever waits gets `UnavailableError`."""
        stored = (self.checkpoints, self.knowledge, self.store)
        for part in (self.reading, self._decoder, self.scheduler, *stored):
            part.close()

    def health(self) -> tuple[str, ...]:
        """Return why this runner must not be used; empty while all is well."""
        return self.model.damage

    def fatal_error(self) -> str | None:
        """Return why this process must be ended and started again; None while it need not be."""
        return self.model.loaded.device_failure or None

    def model_thread_beat(self) -> tuple[float, float]:
        """Return for how many seconds the running tick has lasted, and may; 0 between ticks."""
        return self.scheduler.beat()

    @property
    def base(self) -> str:
        """The digest of the base's weights."""
        return self.model.digest

    @property
    def precision(self) -> Precision:
        """The device and compute dtype in use."""
        return self.model.precision

    def gauges(self) -> Mapping[str, float]:
        """Numbers for a server's metrics."""
        return _gauges_of(self)

    @property
    def adapters(self) -> Adapters:
        """The adapters of all owners, for a server's routes."""
        return _adapters_of(self)

    def kept_folders(self) -> tuple[Path, ...]:
        """Name the folder of stored adapters: a server that sends one leaves it there."""
        return (self.settings.weights_dir,)

    def read_owner_from(self, key: str) -> None:
        """Take owners from this key of a context; a server that guards the key calls this."""
        self._owner_key = key

    def read_admin_from(self, key: str) -> None:
        """Take from this key of a context that an admin asks; called as `read_owner_from` is."""
        self._admin_key = key

    def asker_of(self, context: Mapping[str, str]) -> Asker:
        """Say who asks in a request with this context; owner "" where there are no owners."""
        owner = context.get(self._owner_key, "") if self._owner_key else ""
        return Asker(owner, bool(owner and self._admin_key and context.get(self._admin_key)))

    def self_test(self, entry: Callable[..., object] | None = None) -> SelfTestReport:
        """Run the self-test; SELF_TEST sets the first's level. `entry` is a door to check."""
        self.self_test_report = _tested(self, entry).wait()
        return self.self_test_report

    def predict(
        self,
        inputs: Sequence[Any],
        adapter: Adapter | None = None,
        labels: Sequence[str] = (),
        options: Any = None,  # noqa: ANN401 - the task's own class
    ) -> list[Any]:
        """Answer a `Query` of these parts (InputError, WeightsError where they do not fit)."""
        query = Query(inputs, adapter, labels, options)
        check_characters(self.task, inputs)
        check_decoding(self.task, inputs)
        parts = map(self._decoder.decoded, self._decoder.portions(query))
        if _grows(self):
            return [answer for part in parts for answer in self._growing.whole(part)]
        return [answer for part in parts for answer in _asked(self, part).wait()]

    async def predict_async(self, query: Query) -> list[Any]:
        """Predict as `predict` does, from an event loop."""
        check_characters(self.task, query.inputs)
        await self._decoder.check_async(query.inputs)
        answers: list[Any] = []
        for part in self._decoder.portions(query):
            answers += await _answered(self, await self._decoder.decoded_async(part))
        return answers

    async def decoded_async(self, query: Query) -> Query:
        """Return a query with its inputs decoded, to be asked more than once; many stay as sent."""
        return await self._decoder.few_decoded(query)

    async def generate_async(self, query: Query, on_end: OnEnd | None = None) -> Pieces:
        """Yield an answer's pieces, then call `on_end` with `Generation.facts`; leaving cancels."""
        check_characters(self.task, query.inputs)
        query = await self._decoder.whole_decoded(query)
        async with aclosing(self._growing.stream(query, on_end)) as pieces:
            async for piece in pieces:
                yield piece

    async def shortened_async(self, inputs: Sequence[Any], owner: str = "") -> Sequence[int]:
        """Ask `Task.shortened` on the model thread: a tokenizer takes one caller at a time."""
        work = find_shortened(self.task, inputs, self.settings.batch_size)
        return await self.scheduler.submit_short(work, owner).wait_async()

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
            examples: what to learn from.
            recipe: how; the defaults suit a few examples a label.
            on_step: called on this thread with each step taken.
            begin: an adapter to go on from, with its label set and method.
            checkpoint: file of an unfinished run's state, to go on from; the caller removes it.

        Raises:
            InputError: the examples or the recipe do not fit.
            AdaptationError: a step could not be taken.
        """
        check_decoding(self.task, (), examples)
        return submitted(self, examples, recipe, begin, checkpoint).wait(_steps_only(on_step))

    async def adapt_async(  # noqa: PLR0913 - what one adaptation is given
        self,
        examples: Sequence[Example],
        recipe: Recipe | None = None,
        on_step: OnStep | None = None,
        *,
        begin: Adapter | None = None,
        checkpoint: Path | None = None,
        owner: str = "",
    ) -> Adaptation:
        """Adapt as `adapt` does, from an event loop; `owner` pays for the model thread's time."""
        await self._decoder.check_async((), examples)
        ticket = submitted(self, examples, recipe, begin, checkpoint, owner=owner)
        return await ticket.wait_async(_steps_only(on_step))


def _grows(runner: ModelRunner) -> bool:
    return isinstance(runner.task, GenerativeTask)


def _gauges_of(runner: ModelRunner) -> dict[str, float]:
    served = runner.model.predictions.modules.served
    parts = (served, runner._admission, runner._growing, runner.store, runner.knowledge)
    return {name: value for part in parts for name, value in part.gauges().items()}


def _knowledge_of(runner: ModelRunner) -> AdaptationCache:
    origin = f"{runner.base} {runner.precision}{mode_of(runner.precision.device)}"
    return AdaptationCache(runner.task, origin, runner.settings, runner.store)


def _adapters_of(runner: ModelRunner) -> Adapters:
    model, labels = runner.model, tuple(runner.task.labels(()))
    peft = PeftFormat(model.template, model.digest, runner.task.head, labels)
    checked = model.predictions.modules.checked
    forget, read = runner.knowledge.forget, runner.reading.read
    return Adapters(runner.store, checked, peft, forget, read)


def _tested(runner: ModelRunner, entry: Callable[..., object] | None) -> Ticket[SelfTestReport]:
    run = run_again if runner.self_test_report else run_at_start
    work = once(run, runner.model, runner.settings, entry)
    return runner.scheduler.submit_long(work, _SELF_TEST_SECONDS)


async def _answered(runner: ModelRunner, query: Query) -> list[Any]:
    if _grows(runner):
        return await runner._growing.whole_async(query)
    return await _asked(runner, query).wait_async()


def _asked(runner: ModelRunner, query: Query) -> Ticket[list[Any]]:
    part = runner.model.predictions.part(query)
    return runner.scheduler.submit_short(part.working(), query.owner, part)


def submitted(  # noqa: PLR0913 - those of `adapt`
    runner: ModelRunner,
    examples: Sequence[Example],
    recipe: Recipe | None,
    begin: Adapter | None,
    checkpoint: Path | None,
    keep_every: int = KEEP_EVERY,
    owner: str = "",
    *,
    exact: bool = True,
) -> Ticket[Adaptation]:
    """Submit an adaptation; kept features, unless `exact`: last bits of theirs are by batch."""
    folder = runner.checkpoints
    states = None if checkpoint is None else checkpoints_in(folder, checkpoint, keep_every)
    kept = None if exact else runner.knowledge.kept.of(owner)
    work = runner.model.adapting(examples, recipe or Recipe(), begin, states, kept)
    return runner._admission.submit(kept.guarding(work) if kept else work, owner)


def _steps_only(on_step: OnStep | None) -> Callable[[object], None] | None:
    if on_step is None:
        return None
    return lambda progress: on_step(progress) if isinstance(progress, Step) else None
