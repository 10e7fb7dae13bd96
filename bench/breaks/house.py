"""Mistakes in the template and on the package's main paths, which `make test` must catch."""

from bench.breaks.planting import Break

_RUNNER, _SERVER = "cog_adapt/runner", "cog_adapt/server"
BREAKS = (
    Break(
        "the loss has the wrong sign",
        "task.py",
        "return F.cross_entropy",
        "return -F.cross_entropy",
    ),
    Break(
        "the worst label wins", f"{_RUNNER}/task/labelled.py", "max(scores, key", "min(scores, key"
    ),
    Break("a head starts from nothing", "task.py", "_SCALE = 10.0", "_SCALE = 0.0"),
    Break("padding counts as text", "encoder.py", "(hidden * weights).sum(1)", "hidden.sum(1)"),
    Break("long texts are not cut", "encoder.py", "truncation=True", "truncation=False"),
    Break("predict drops the labels", "predict.py", "labels=labels or ()", "labels=()"),
    Break(
        "predict drops the file of weights",
        "predict.py",
        "weights=weights",
        "weights=None",
    ),
    Break("predict drops strict", "predict.py", "strict=strict", "strict=False"),
    Break("predict drops the seed", "predict.py", "seed=seed", "seed=0"),
    Break("train holds nothing out", "train.py", "hold_out=hold_out", "hold_out=0.0"),
    Break(
        "the app is not the mirror's",
        "server/app.py",
        "return create_app(settings)",
        "return FastAPI()",
    ),
    Break(
        "training mode is left on",
        "gradient_check/phases/modes.py",
        "    if _trains_somewhere(module):\n        module.eval()\n    with ",
        "    module.train()\n    with ",
    ),
    Break(
        "an adaptation has no gradients",
        "gradient_check/phases/modes.py",
        "(torch.enable_grad())",
        "(torch.no_grad())",
    ),
    Break(
        "no step is taken",
        "gradient_check/phases/gradient_step.py",
        "self.scaler.step(self.optimizer)",
        "pass",
    ),
    Break(
        "`before` is what comes after",
        f"{_RUNNER}/requests/few_shot.py",
        "predictions=predictions, before=before, adapter=",
        "predictions=predictions, before=predictions, adapter=",
    ),
    Break(
        "adapters are not kept",
        f"{_RUNNER}/requests/learning.py",
        "runner.store.put(done.adapter, wanted.owner, made)",
        "pass",
    ),
    Break(
        "any path is read",
        f"{_RUNNER}/request.py",
        "if not isinstance(value, os.PathLike):",
        "if not isinstance(value, os.PathLike | str):",
    ),
    Break(
        "an input is taken for a target",
        f"{_RUNNER}/data/examples.py",
        "Example(_value(row, INPUT_NAMES), _value(row, TARGET_NAMES))",
        "Example(_value(row, TARGET_NAMES), _value(row, INPUT_NAMES))",
    ),
    Break(
        "a killed training begins anew",
        f"{_RUNNER}/storage/checkpoint_folder.py",
        "load=lambda: load_state(file)",
        "load=lambda: None",
    ),
    Break(
        "a slot is not freed",
        f"{_SERVER}/service/dispatcher.py",
        "worker.running.pop(prediction.run_id, None)",
        "pass",
    ),
    Break(
        "any key opens any route", f"{_SERVER}/middleware/auth.py", "or key.opens(need)", "or key"
    ),
)
