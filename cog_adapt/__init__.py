"""A model server whose prediction requests may carry training examples.

A predictor or a task imports the names below and nothing else of the package. Each is imported from
its module at its first use (PEP 562): `check_gradients` needs torch alone, `predict.py` needs no
FastAPI, and a process that runs no model never imports torch.
"""

# typing is not imported: the folder of this program may hold a typing.py of the user's
TYPE_CHECKING = False
if TYPE_CHECKING:
    from cog_adapt.client import AsyncClient as AsyncClient
    from cog_adapt.client import Client as Client
    from cog_adapt.command.main import run as run
    from cog_adapt.lm.causal_lm import CausalLM as CausalLM
    from cog_adapt.lm.sampling import TextOptions as TextOptions
    from cog_adapt.runner.adaptation.length_groups import in_length_groups as in_length_groups
    from cog_adapt.runner.adaptation.report import Step as Step
    from cog_adapt.runner.config import Recipe as Recipe
    from cog_adapt.runner.config import RunnerSettings as RunnerSettings
    from cog_adapt.runner.data.examples import Example as Example
    from cog_adapt.runner.data.examples import read_examples as read_examples
    from cog_adapt.runner.errors import AdaptationError as AdaptationError
    from cog_adapt.runner.errors import InputError as InputError
    from cog_adapt.runner.errors import RunnerError as RunnerError
    from cog_adapt.runner.errors import WeightsError as WeightsError
    from cog_adapt.runner.gradients import GradientReport as GradientReport
    from cog_adapt.runner.gradients import check_gradients as check_gradients
    from cog_adapt.runner.inference.answers import Query as Query
    from cog_adapt.runner.inference.growing import Generation as Generation
    from cog_adapt.runner.inference.growing import GenerativeTask as GenerativeTask
    from cog_adapt.runner.model.loaded_model import Adaptation as Adaptation
    from cog_adapt.runner.model_runner import ModelRunner as ModelRunner
    from cog_adapt.runner.modules.adapters import Adapter as Adapter
    from cog_adapt.runner.modules.adapters import adapter_from_bytes as adapter_from_bytes
    from cog_adapt.runner.modules.adapters import base_digest as base_digest
    from cog_adapt.runner.modules.adapters import load_adapter as load_adapter
    from cog_adapt.runner.modules.adapters import save_adapter as save_adapter
    from cog_adapt.runner.modules.batch_rows import batch_rows as batch_rows
    from cog_adapt.runner.modules.row_noise import row_generators as row_generators
    from cog_adapt.runner.request import Request as Request
    from cog_adapt.runner.requests.few_shot import Answer as Answer
    from cog_adapt.runner.requests.few_shot import answer as answer
    from cog_adapt.runner.requests.few_shot import stream as stream
    from cog_adapt.runner.requests.stream_sync import stream_sync as stream_sync
    from cog_adapt.runner.requests.training import Trained as Trained
    from cog_adapt.runner.requests.training import train as train
    from cog_adapt.runner.task.labelled import label_scores as label_scores
    from cog_adapt.runner.task.labelled import label_set as label_set
    from cog_adapt.runner.task.task import Batch as Batch
    from cog_adapt.runner.task.task import Task as Task
    from cog_adapt.runner.task.task import on_device as on_device
    from cog_adapt.server.api.adapters import find_adapters as find_adapters
    from cog_adapt.server.api.dependencies import ServiceDep as ServiceDep
    from cog_adapt.server.api.own_runs import OwnRun as OwnRun
    from cog_adapt.server.api.own_runs import start_prediction as start_prediction
    from cog_adapt.server.api.refusals import Refusal as Refusal
    from cog_adapt.server.api.refusals import refusal_of as refusal_of
    from cog_adapt.server.app import create_app as create_app
    from cog_adapt.server.command.cog_server import CogServer as CogServer
    from cog_adapt.server.command.cog_server import cog_server as cog_server
    from cog_adapt.server.command.cog_server import write_schema as write_schema
    from cog_adapt.server.errors import RequestError as RequestError
    from cog_adapt.server.main import serve as serve
    from cog_adapt.server.middleware.access import set_need as set_need
    from cog_adapt.server.middleware.route_bodies import set_body_limit as set_body_limit
    from cog_adapt.server.settings import Settings as Settings

_MODULES = {
    "Adaptation": "runner.model.loaded_model",
    "AdaptationError": "runner.errors",
    "Adapter": "runner.modules.adapters",
    "Answer": "runner.requests.few_shot",
    "AsyncClient": "client",
    "Batch": "runner.task.task",
    "CausalLM": "lm.causal_lm",
    "Client": "client",
    "CogServer": "server.command.cog_server",
    "Example": "runner.data.examples",
    "Generation": "runner.inference.growing",
    "GenerativeTask": "runner.inference.growing",
    "GradientReport": "runner.gradients",
    "InputError": "runner.errors",
    "ModelRunner": "runner.model_runner",
    "OwnRun": "server.api.own_runs",
    "Query": "runner.inference.answers",
    "Recipe": "runner.config",
    "Refusal": "server.api.refusals",
    "Request": "runner.request",
    "RequestError": "server.errors",
    "RunnerError": "runner.errors",
    "RunnerSettings": "runner.config",
    "ServiceDep": "server.api.dependencies",
    "Settings": "server.settings",
    "Step": "runner.adaptation.report",
    "Task": "runner.task.task",
    "TextOptions": "lm.sampling",
    "Trained": "runner.requests.training",
    "WeightsError": "runner.errors",
    "adapter_from_bytes": "runner.modules.adapters",
    "answer": "runner.requests.few_shot",
    "base_digest": "runner.modules.adapters",
    "batch_rows": "runner.modules.batch_rows",
    "check_gradients": "runner.gradients",
    "cog_server": "server.command.cog_server",
    "create_app": "server.app",
    "find_adapters": "server.api.adapters",
    "in_length_groups": "runner.adaptation.length_groups",
    "label_scores": "runner.task.labelled",
    "label_set": "runner.task.labelled",
    "load_adapter": "runner.modules.adapters",
    "on_device": "runner.task.task",
    "read_examples": "runner.data.examples",
    "refusal_of": "server.api.refusals",
    "row_generators": "runner.modules.row_noise",
    "run": "command.main",
    "save_adapter": "runner.modules.adapters",
    "serve": "server.main",
    "set_body_limit": "server.middleware.route_bodies",
    "set_need": "server.middleware.access",
    "start_prediction": "server.api.own_runs",
    "stream": "runner.requests.few_shot",
    "stream_sync": "runner.requests.stream_sync",
    "train": "runner.requests.training",
    "write_schema": "server.command.cog_server",
}
__all__ = [*_MODULES]

_RENAMED = {
    "Question": "cog_adapt.Request",
    "default_adapter": "ModelRunner(task, settings, weights)",
    "train_async": "cog_adapt.train",
}

if not TYPE_CHECKING:  # a type checker knows the names above, and reports any other name

    def __getattr__(name: str) -> object:
        """Return the public name, imported from its module."""
        if name not in _MODULES:
            now = f"; it is {_RENAMED[name]} now" if name in _RENAMED else ""
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}{now}")
        from importlib import import_module

        value = getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
        globals()[name] = value
        return value

    def __dir__() -> list[str]:
        return sorted({*globals(), *__all__})
