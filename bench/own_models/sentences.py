"""Sentences of technical jargon, spoken by a synthetic voice, and the error of a transcript."""

import re
import subprocess
from collections.abc import Sequence
from pathlib import Path

SPEAKER = Path("/usr/bin/espeak-ng")  # Debian's espeak-ng, GPL-3
KNOWN = (
    "The autograd graph is recorded in the adaptation phase.",
    "LoRA adapters are stored beside the census.",
    "Backpropagation needs the autograd graph.",
    "The mel spectrogram goes to the encoder.",
    "Quantize the LoRA adapter to bfloat sixteen.",
    "The tokenizer splits the transcript.",
    "A checkpoint holds the optimizer and the LoRA adapter.",
    "Inference mode records no autograd graph.",
    "The census compares every tensor of the base.",
    "A mel spectrogram is made of the waveform.",
    "The tokenizer runs before inference.",
    "Bfloat sixteen gradients flow through the encoder.",
)
HELD_OUT = (
    "The LoRA adapter goes through backpropagation.",
    "Inference runs in bfloat sixteen.",
    "The autograd graph of the encoder is recorded.",
    "The census holds a checkpoint.",
    "A tokenizer needs no mel spectrogram.",
    "The optimizer quantizes the waveform.",
    "Gradients of the adapter are stored in the checkpoint.",
    "The base of the census is recorded in inference mode.",
)


def spoken(sentence: str) -> bytes:
    """Say a sentence by espeak-ng: a WAV file."""
    command = [str(SPEAKER), "--stdout", "-s", "150", sentence]
    return subprocess.run(command, check=True, capture_output=True).stdout


def word_error_rate(said: Sequence[str], written: Sequence[str]) -> float:
    """Count the words to insert, drop or change, relative to all spoken words."""
    pairs = [(_words(one), _words(other)) for one, other in zip(said, written, strict=True)]
    return sum(_edits(*pair) for pair in pairs) / sum(len(words) for words, _ in pairs)


def _words(text: str) -> list[str]:
    return re.sub(r"[^a-z0-9' ]", " ", text.lower()).split()


def _edits(one: Sequence[str], other: Sequence[str]) -> int:
    """Levenshtein's distance."""
    row = list(range(len(other) + 1))
    for number, word in enumerate(one, 1):
        last, row[0] = row[0], number
        for place, written in enumerate(other, 1):
            costs = (row[place] + 1, row[place - 1] + 1, last + (word != written))
            last, row[place] = row[place], min(costs)
    return row[-1]
