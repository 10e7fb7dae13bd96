"""PEFT's `adapter_config.json`: written for an adapter's LoRA pairs, and read with care.

PEFT reads names of layers as regular expressions. This module writes names as regular expressions,
but reads only plain names, because a stranger's expression may take unbounded time.
"""

import json
import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from cog_adapt.runner.errors import InputError

_PLAIN = re.compile(r"\^?[A-Za-z0-9_.-]+")
_MOST_PATTERNS = 10_000
_MOST_ALPHA = 1_000_000_000
_NO_MODULES = "dummy-target-modules"  # PEFT's word for "none"
_REFUSED = (
    *("use_dora", "lora_bias", "fan_in_fan_out", "target_parameters", "trainable_token_indices"),
    *("layer_replication", "alora_invocation_tokens", "use_qalora", "use_bdlora", "arrow_config"),
    *("kasa_config", "velora_config", "monteclora_config"),
)
_SHOWN = 80


def written_config(
    ranks: Mapping[str, int], scales: Mapping[str, float], saved: Sequence[str]
) -> dict[str, Any]:
    """Return the config of LoRA pairs.

    Args:
        ranks: of each layer with a pair.
        scales: the factor of each pair's output.
        saved: the modules that are stored whole.
    """
    usual_rank = Counter(ranks.values()).most_common(1)[0][0] if ranks else 8
    alphas = {path: _alpha(scales[path], rank) for path, rank in ranks.items()}
    usual_alpha = Counter(alphas.values()).most_common(1)[0][0] if alphas else usual_rank
    names = "|".join(re.escape(path) for path in sorted(ranks))
    return {
        "peft_type": "LORA",
        "task_type": None,
        "base_model_name_or_path": None,
        "inference_mode": True,
        "r": usual_rank,
        "lora_alpha": usual_alpha,
        "lora_dropout": 0.0,
        "bias": "none",
        "target_modules": f"(?:{names})" if ranks else _NO_MODULES,
        "rank_pattern": _pattern(ranks, usual_rank),
        "alpha_pattern": _pattern(alphas, usual_alpha),
        "modules_to_save": list(saved) or None,
    }


def read_config(content: bytes) -> dict[str, Any]:
    """Read a config of LoRA.

    Raises:
        InputError: it is no JSON object, or asks for more than a pair of matrices.
    """
    try:
        config = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise InputError(f"adapter_config.json is no JSON: {error}. Send PEFT's own.") from error
    if not isinstance(config, dict) or config.get("peft_type") != "LORA":
        kind = config.get("peft_type") if isinstance(config, dict) else None
        raise InputError(f"peft_type is {repr(kind)[:_SHOWN]}; only 'LORA' is taken. Send one.")
    more = [name for name in _REFUSED if config.get(name)]
    more += ["bias"] if config.get("bias", "none") != "none" else []
    if more:
        raise InputError(
            f"adapter_config.json sets {', '.join(more)}; only plain LoRA is taken, with alphas, "
            "ranks and modules_to_save. Train without these."
        )
    return config


def read_scales(config: Mapping[str, Any], ranks: Mapping[str, int]) -> dict[str, float]:
    """Return the factor of each layer's pair: alpha / r, or alpha / sqrt(r).

    Raises:
        InputError: an alpha is no number, or a pattern no plain name.
    """
    patterns = config.get("alpha_pattern") or {}
    if not isinstance(patterns, dict) or len(patterns) > _MOST_PATTERNS:
        raise InputError(f"alpha_pattern is no object of at most {_MOST_PATTERNS:,} names.")
    order: dict[str, tuple[int, object]] = {}
    for number, (pattern, alpha) in enumerate(patterns.items()):
        order.setdefault(_plain(pattern), (number, alpha))
    usual = config.get("lora_alpha", 8)
    divide = math.sqrt if config.get("use_rslora") else float
    scales = {}
    for path, rank in ranks.items():
        found = [order[name] for name in _names_of(path) if name in order]
        first = min(found, key=lambda pair: pair[0], default=(0, usual))
        scales[path] = _number(first[1], path) / divide(rank)
    return scales


def _number(alpha: object, path: str) -> float:
    if not isinstance(alpha, int | float) or not abs(alpha) <= _MOST_ALPHA:
        raise InputError(
            f"the lora_alpha of {path} is {repr(alpha)[:_SHOWN]}; it is a number up to "
            f"{_MOST_ALPHA:,}. Correct adapter_config.json."
        )
    return alpha


def _names_of(path: str) -> Iterator[str]:
    """Yield the patterns that may name a layer: the whole path, and each suffix after a dot."""
    yield f"^{path}"
    yield path
    yield from (path[found.end() :] for found in re.finditer(r"\.", path))


def _plain(pattern: str) -> str:
    """Return the name in a pattern (InputError if it is more than a name).

    A leading `^` stays: the name is then a layer's whole name, not a suffix.
    """
    name = re.sub(r"\\([.\-])", r"\1", pattern)
    if not _PLAIN.fullmatch(name):
        raise InputError(
            f"alpha_pattern has {pattern[:_SHOWN]!r}, a regular expression; only names of layers "
            "are taken. Write one entry for each layer."
        )
    return name


def _pattern(values: Mapping[str, float], usual: float) -> dict[str, float]:
    """Return the entries that differ from the most common one, each for exactly one layer."""
    return {f"^{re.escape(path)}": value for path, value in values.items() if value != usual}


def _alpha(scale: float, rank: int) -> float:
    """Return the alpha that PEFT divides by the rank to get this scale, an int if whole."""
    alpha = scale * rank
    near = (alpha, math.nextafter(alpha, math.inf), math.nextafter(alpha, -math.inf))
    exact = next((each for each in near if each / rank == scale), alpha)
    return int(exact) if exact == int(exact) else exact
