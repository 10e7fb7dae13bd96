"""Mistakes with random streams, with a thread's current device and stream, and with switches."""

from bench.breaks.planting import Break

_RUNNER = "cog_adapt/runner"

STREAMS = (
    Break(
        "a default device that a task set stays so in later ticks",
        "gradient_check/phases/modes.py",
        "        torch.set_default_device(None)\n",
        "        pass\n",
    ),
    Break(
        "random streams are not restored after an error",
        "gradient_check/phases/randomness.py",
        "    finally:\n        torch.set_rng_state(cpu_state)\n",
        "    except ZeroDivisionError:\n        raise\n    else:\n"
        "        torch.set_rng_state(cpu_state)\n",
    ),
    Break(
        "a stream that a task made current stays so after an error",
        "gradient_check/phases/modes.py",
        "        torch.cuda.set_stream(stream)\n",
        "        pass\n",
    ),
    Break(
        "a device that a task made current stays so in later ticks",
        "gradient_check/phases/modes.py",
        "        torch.cuda.set_device(number)\n",
        "        pass\n",
    ),
    Break(
        "the chosen device is never the thread's current one",
        f"{_RUNNER}/devices/device.py",
        "    use_device(device)\n",
        "",
    ),
    Break(
        "autocast is bfloat16 whatever was chosen",
        "gradient_check/phases/modes.py",
        "torch.autocast(kind, dtype=precision.compute, cache_enabled=False)",
        "torch.autocast(kind, dtype=torch.bfloat16, cache_enabled=False)",
    ),
    Break(
        "casts of weights are cached on the device",
        "gradient_check/phases/modes.py",
        "torch.autocast(kind, dtype=precision.compute, cache_enabled=False)",
        "torch.autocast(kind, dtype=precision.compute, cache_enabled=True)",
    ),
    Break(
        "a recomputed block draws anew from the device's stream",
        "gradient_check/phases/checkpointing.py",
        "_place_of(block), use_reentrant=False",
        "_place_of(block), use_reentrant=False, preserve_rng_state=False",
    ),
    Break(
        "a frozen trunk is watched for draws from the CPU's stream alone",
        f"{_RUNNER}/adaptation/trunk.py",
        "_equal(fresh, random_state(device))",
        "_equal(fresh[:1], random_state(device)[:1])",
    ),
    Break(
        "the self-test puts the stream back on the current device",
        "gradient_check/instruments/guard.py",
        'torch.cuda.set_rng_state(self.streams["cuda"], self.device)',
        'torch.cuda.set_rng_state(self.streams["cuda"])',
    ),
    Break(
        "LoRA's first values are drawn from the device's stream",
        "gradient_check/phases/lora.py",
        "    a = torch.empty(rank, layer.in_features)\n"
        "    nn.init.kaiming_uniform_(a, a=math.sqrt(5), generator=generator)\n",
        "    a = torch.empty(rank, layer.in_features, device=layer.weight.device)\n"
        "    nn.init.kaiming_uniform_(a, a=math.sqrt(5))\n",
    ),
    Break(
        "attention takes any kernel in the deterministic mode",
        "gradient_check/phases/determinism.py",
        "    return sdpa_kernel(SDPBackend.MATH)",
        "    return nullcontext()",
    ),
    Break(
        "the same bits are promised where a race chooses kernels",
        "gradient_check/phases/determinism.py",
        "_is_in_the_mode() and not torch.backends.cudnn.benchmark",
        "_is_in_the_mode()",
    ),
    Break(
        "the switches of TF32 are not restored after a self-test",
        "gradient_check/phases/float32.py",
        "        before.put_back()\n",
        "        pass\n",
    ),
    Break(
        "convolutions are chosen by a race of their kernels",
        f"{_RUNNER}/devices/device.py",
        "    torch.backends.cudnn.benchmark = False\n",
        "    torch.backends.cudnn.benchmark = True\n",
    ),
)
