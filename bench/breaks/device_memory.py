"""Mistakes with a device's memory, caches and copies, and with limits that follow from it."""

from bench.breaks.planting import Break

_RUNNER = "cog_adapt/runner"

MEMORY = (
    Break(
        "keys and values of an answer are kept on the host",
        "cog_adapt/lm/key_values.py",
        "self.capacity, like.shape[3]))",
        'self.capacity, like.shape[3]), device="cpu")',
    ),
    Break(
        "tokens of an answer are read on the first device",
        "cog_adapt/lm/causal_lm.py",
        "input_ids=torch.tensor(tokens, device=device)",
        'input_ids=torch.tensor(tokens, device="cuda:0")',
    ),
    Break(
        "free memory is asked of the first device",
        "gradient_check/phases/memory.py",
        "torch.cuda.mem_get_info(device)",
        "torch.cuda.mem_get_info(0)",
    ),
    Break(
        "total memory is asked of the first device",
        "gradient_check/phases/memory.py",
        "torch.cuda.get_device_properties(device).total_memory",
        "torch.cuda.get_device_properties(0).total_memory",
    ),
    Break(
        "the last run's tensors are kept on the card",
        f"{_RUNNER}/adaptation/run.py",
        "    run = _Run(start)\n",
        '    run = globals()["_last"] = _Run(start)\n',
    ),
    Break(
        "features are copied to the host without waiting",
        f"{_RUNNER}/auto/head.py",
        "part.float().cpu()",
        'part.float().to("cpu", non_blocking=True)',
    ),
    Break(
        "features of known examples are kept on the card",
        f"{_RUNNER}/known/kept_examples.py",
        "[row.clone() for row in rows]",
        "[row.clone().cuda() for row in rows]",
    ),
    Break(
        "a batch waits for its copy to the device",
        f"{_RUNNER}/task/task.py",
        "tensor.to(device, non_blocking=True)",
        "tensor.to(device)",
    ),
    Break(
        "outputs of a frozen trunk are kept on the host",
        f"{_RUNNER}/adaptation/kept_outputs.py",
        "self._parts.append(own.clone())",
        "self._parts.append(own.cpu())",
    ),
    Break(
        "rows of a shared forward are numbered on the first device",
        f"{_RUNNER}/inference/stacked.py",
        "torch.tensor(rows, device=input.device)",
        'torch.tensor(rows, device="cuda:0")',
    ),
    Break(
        "the dtype of tensors is lost when a run begins",
        f"{_RUNNER}/adaptation/run.py",
        "{n: t.to(start.training.precision.device) for n, t in tensors.items()}",
        "{n: t.to(start.training.precision.device, start.training.precision.compute)"
        " for n, t in tensors.items()}",
    ),
    Break(
        "a checkpoint clones the optimizer's state on the card",
        f"{_RUNNER}/adaptation/training_state.py",
        'torch.as_tensor(value).to("cpu", copy=True)',
        "torch.as_tensor(value).clone()",
    ),
    Break(
        "the scale of float16 is not restored by a resume",
        f"{_RUNNER}/adaptation/training_state.py",
        "        step.scaler.load_state_dict(whole)\n",
        "        pass\n",
    ),
    Break(
        "a step is taken again without an empty cache",
        f"{_RUNNER}/adaptation/micro_batches.py",
        "        free_cache(self.take_step.precision.device)\n",
        "        pass\n",
    ),
    Break(
        "the cache is emptied where the first device was chosen alone",
        "gradient_check/phases/memory.py",
        '    if device.type == "cuda":\n        torch.cuda.empty_cache()',
        '    if device == torch.device("cuda", 0):\n        torch.cuda.empty_cache()',
    ),
    Break(
        "after an error a kernel is tried on the first device",
        f"{_RUNNER}/devices/device.py",
        "torch.zeros((), device=device).item()",
        'torch.zeros((), device="cuda:0").item()',
    ),
    Break(
        "the gauges count the memory of one device",
        "cog_adapt/server/worker/checks.py",
        "range(torch.cuda.device_count())",
        "range(1)",
    ),
    Break(
        "a step on the device is cut into parts of a CPU's size",
        f"{_RUNNER}/adaptation/step_parts.py",
        '_TOKENS if device.type == "cpu" else _TOKENS_ELSEWHERE',
        "_TOKENS",
    ),
    Break(
        "lengths on the device are not rounded",
        f"{_RUNNER}/adaptation/encoded.py",
        "bucket = 1 if on_cpu else _MULTIPLE",
        "bucket = 1",
    ),
    Break(
        "a tick on the device is timed by the thread's own clock",
        f"{_RUNNER}/inference/pace.py",
        'time.thread_time if device.type == "cpu" else time.monotonic',
        "time.thread_time",
    ),
)
