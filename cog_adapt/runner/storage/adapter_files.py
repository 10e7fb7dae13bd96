"""An adapter's files, in every format that is written and read."""

import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from cog_adapt.runner.data.files import read_bytes
from cog_adapt.runner.modules.adapters import MOST_ADAPTER_BYTES, Adapter, adapter_from_bytes
from cog_adapt.runner.storage.lora_files import LoRAFiles, is_lora_file
from cog_adapt.runner.storage.peft_format import PeftFormat

_ENDINGS = {"peft": "zip"}  # all others are safetensors


@dataclass(frozen=True)
class AdapterFiles:
    """Writes adapters of one base, and reads those that fit it.

    Attributes:
        check: returns an adapter that fits the base, and refuses others (WeightsError).
        peft: PEFT's format for that base.
        lora: the formats of LoRA files for that base.
    """

    check: Callable[[Adapter], Adapter]
    peft: PeftFormat
    lora: LoRAFiles

    def write(self, adapter: Adapter, format: str) -> tuple[bytes, str]:
        """Return a file's content and its name's ending.

        Raises:
            InputError: the format cannot hold the adapter.
        """
        if format == "safetensors":
            content = adapter.to_bytes()
        elif format == "peft":
            content = self.peft.write(adapter)
        else:
            content = self.lora.write(adapter, format)
        return content, _ENDINGS.get(format, "safetensors")

    def read(self, path: Path) -> Adapter:
        """Read a caller's file.

        Raises:
            InputError: it cannot be read, is too big, or holds what its format does not.
            WeightsError: it is no adapter of this base.
        """
        if zipfile.is_zipfile(path):
            return self.check(self.peft.read(path))
        content = read_bytes(path, MOST_ADAPTER_BYTES, "the file")
        if is_lora_file(content):
            return self.check(self.lora.read(content, "the file"))
        return self.check(adapter_from_bytes(content, "the file"))
