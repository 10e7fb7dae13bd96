"""Loads a model on its thread, and connects it with the scheduler, the store and the formats."""

import logging
import time
from contextlib import suppress

from cog_adapt.runner.config import RunnerSettings
from cog_adapt.runner.devices.threads import share_cores
from cog_adapt.runner.devices.waiting_threads import watch_cores
from cog_adapt.runner.errors import UnavailableError
from cog_adapt.runner.model.loaded_model import LoadedModel
from cog_adapt.runner.scheduling.scheduler import Scheduler, once
from cog_adapt.runner.storage.adapter_files import AdapterFiles
from cog_adapt.runner.storage.known import Watcher
from cog_adapt.runner.storage.lora_files import LoRAFiles
from cog_adapt.runner.storage.peft_format import PeftFormat
from cog_adapt.runner.storage.store import AdapterStore
from cog_adapt.runner.task.errors import named
from cog_adapt.runner.task.task import Task

_LOAD_SECONDS = 3600.0  # loading is one tick
_progress = logging.getLogger("cog_adapt.setup")  # a worker prints its lines


def _forgetting(scheduler: Scheduler, model: LoadedModel) -> Watcher:
    """Return a watcher that drops the device's copy of a removed adapter."""

    def forget(_owner: str, adapter_id: str, known: object) -> None:
        if known is None:
            with suppress(UnavailableError):  # the runner is closed: no module is ready any more
                scheduler.submit_short(
                    once(model.predictions.modules.served.forget, adapter_id)
                ).wait()

    return forget


def load(
    task: Task, settings: RunnerSettings, scheduler: Scheduler, store: AdapterStore
) -> LoadedModel:
    """Load the model on the model thread; if that fails, the thread ends.

    From then on the caller of failed work learns whether the device failed for good, or else which
    function of the task raised.
    """
    _progress.info("loading the model of %s", type(task).__name__)
    began = time.perf_counter()
    try:
        watch_cores(scheduler.submit_long(once(share_cores), _LOAD_SECONDS).wait())
        model = scheduler.submit_long(once(LoadedModel, task, settings), _LOAD_SECONDS).wait()
    except BaseException:
        scheduler.close()
        raise
    _progress.info("loaded on %s in %.1f s", model.base.precision, time.perf_counter() - began)
    scheduler.explain = lambda error: named(task, model.base.explained(error))
    store.watch(_forgetting(scheduler, model))
    return model


def files_of(task: Task, model: LoadedModel) -> AdapterFiles:
    """Return the formats in which a model's adapters are written and read."""
    base = model.base
    peft = PeftFormat(
        template=base.template,
        base=base.digest,
        head=task.head,
        labels=tuple(task.labels(())),
    )
    return AdapterFiles(model.predictions.modules.checked, peft, LoRAFiles(peft))
