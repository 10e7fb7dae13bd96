"""Mistakes with a tensor's device, of the kind that a CPU does not show."""

from bench.breaks.planting import Break

_RUNNER = "cog_adapt/runner"

PLACES = (
    Break(
        "labels are left on the CPU",
        f"{_RUNNER}/adaptation/encoded.py",
        "tensors.pop(_TARGETS)",
        "tensors.pop(_TARGETS).cpu()",
    ),
    Break(
        "the device's random stream is never seeded",
        "gradient_check/phases/randomness.py",
        "            _seed_cuda(seed, device)\n",
        "            pass\n",
    ),
    Break(
        "the current device's stream is seeded in place of the chosen one's",
        "gradient_check/phases/randomness.py",
        "    with torch.cuda.device(device):\n        torch.cuda.manual_seed(seed)\n",
        "    torch.cuda.manual_seed(seed)\n",
    ),
    Break(
        "the device's stream is not restored",
        "gradient_check/phases/randomness.py",
        "            torch.cuda.set_rng_state(cuda_state[0], device)\n",
        "            pass\n",
    ),
    Break(
        "the optimizer's state is on the CPU after a resume",
        f"{_RUNNER}/adaptation/training_state.py",
        'step.optimizer.load_state_dict({"state": values, "param_groups": groups})',
        "step.optimizer.state.update({step.trained[i]: own for i, own in values.items()}), groups",
    ),
    Break(
        "a checkpoint is loaded to cuda:0",
        f"{_RUNNER}/adaptation/training_state.py",
        'safe_open(path, framework="pt")',
        'safe_open(path, framework="pt", device="cuda:0")',
    ),
    Break(
        "head rows are left on the CPU",
        f"{_RUNNER}/inference/served_adapters.py",
        "{n: t.to(self._precision.device) for n, t in adapter.tensors.items()}",
        '{n: t if "head" in n else t.to(self._precision.device)'
        " for n, t in adapter.tensors.items()}",
    ),
    Break(
        "autocast is for the CPU",
        "gradient_check/phases/modes.py",
        "torch.autocast(kind, dtype=precision.compute, cache_enabled=False)",
        'torch.autocast("cpu", dtype=precision.compute, cache_enabled=False)',
    ),
    Break(
        "the scaler is off in float16",
        "gradient_check/phases/gradient_step.py",
        "enabled=precision.scaled",
        "enabled=False",
    ),
    Break(
        "an adapter is left on the device",
        f"{_RUNNER}/adaptation/run.py",
        "return {name: tensor.cpu() for name, tensor in tensors.items()}, report",
        "return dict(tensors), report",
    ),
    Break(
        "a result is copied back without waiting",
        f"{_RUNNER}/adaptation/run.py",
        "(values * each).sum(1).cpu()",
        '(values * each).sum(1).to("cpu", non_blocking=True)',
    ),
    Break(
        "a mask is made on the CPU in the task",
        "encoder.py",
        'batch["attention_mask"].unsqueeze(-1)',
        'batch["attention_mask"].cpu().unsqueeze(-1)',
    ),
    Break(
        "`.numpy()` of a tensor on the device",
        f"{_RUNNER}/task/labelled.py",
        "probabilities.tolist()",
        "probabilities.numpy().tolist()",
    ),
)
