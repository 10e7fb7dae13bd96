"""PEFT loads what is exported, and what PEFT trained is served, with a difference of 0.0."""

import json
import warnings
import zipfile
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.nn.utils import parametrizations

from cog_adapt.runner.config import Recipe
from cog_adapt.runner.errors import InputError, WeightsError
from cog_adapt.runner.modules.adapter_fit import check_fits
from cog_adapt.runner.modules.adapters import Adapter
from cog_adapt.runner.storage.peft_format import CONFIG, TENSORS, PeftFormat
from gradient_check.phases.replicas import freeze, make_template, serving_replica
from gradient_check.tests.models import seeded_module
from tests.cog_adapt.models import Letters, examples, inputs

peft = pytest.importorskip("peft", reason="peft is not installed")
BASE = "0123456789abcdef"
HEAD = r"head\..*"
LABELS = ("a", "b", "c")


class Net(nn.Module):
    """Convolutions of each kind, linear layers whose names are ends of others, and a head."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv1d(1, 4, 3, padding=1, stride=2)
        self.conv2 = nn.Conv2d(4, 4, 3, padding="same", groups=2)
        self.conv3 = nn.Conv3d(4, 6, 1, bias=False)
        self.layers = nn.ModuleList([nn.Linear(24, 6), nn.Linear(6, 6)])
        self.more = nn.ModuleDict({"layers": nn.ModuleList([nn.Linear(6, 6, bias=False)])})
        self.head = nn.Linear(6, 3)

    def forward(self, x):
        x = F.relu(self.conv1(x.unsqueeze(1)))
        x = F.relu(self.conv2(x.unsqueeze(-1))).unsqueeze(-1)
        x = self.layers[0](self.conv3(x).flatten(1))
        layers: Any = self.more["layers"]
        return self.head(layers[0](F.gelu(self.layers[1](x))))


@pytest.fixture
def base():
    module = seeded_module(Net)
    freeze(module)
    return module


@pytest.fixture
def format_of_base(base):
    return PeftFormat(make_template(base), BASE, HEAD)


@pytest.fixture
def x():
    return torch.randn(5, 8, generator=torch.Generator().manual_seed(3))


def trained_by_peft(folder, x, **config):
    """Train a step with PEFT; return its outputs and the .zip of what it saved."""
    defaults = {"r": 4, "lora_alpha": 5, "target_modules": ["conv1", "conv2", "conv3", "layers.1"]}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # PEFT cannot merge a convolution of groups
        torch.manual_seed(0)
        model = peft.get_peft_model(seeded_module(Net), peft.LoraConfig(**defaults | config))
    optimizer = torch.optim.SGD([p for p in model.parameters() if p.requires_grad], 0.5)
    for _ in range(3):
        optimizer.zero_grad()
        F.cross_entropy(model(x), torch.tensor([0, 1, 2, 0, 1])).backward()
        optimizer.step()
    model.save_pretrained(folder)
    with zipfile.ZipFile(folder.with_suffix(".zip"), "w", zipfile.ZIP_DEFLATED) as archive:
        for path in folder.iterdir():
            archive.write(path, f"{folder.name}/{path.name}")
    with torch.no_grad():
        return model.eval()(x), folder.with_suffix(".zip")


def served(base, adapter, x):
    check_fits(adapter, BASE, make_template(base), HEAD)
    with torch.no_grad():
        return serving_replica(make_template(base), adapter.tensors, adapter.scales)(x)


def loaded_by_peft(content, folder, x):
    (folder.parent / "exported.zip").write_bytes(content)
    with zipfile.ZipFile(folder.parent / "exported.zip") as archive:
        archive.extractall(folder)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = peft.PeftModel.from_pretrained(seeded_module(Net), folder)
    with torch.no_grad():
        return model.eval()(x)


CONFIGS: dict[str, Any] = {
    "one alpha": {},
    "alpha and rank patterns": {
        "rank_pattern": {"conv1": 2, "layers.1": 3},
        "alpha_pattern": {"layers.1": 7, "conv2": 0.3},
    },
    "anchored patterns": {
        "target_modules": ["layers.0", "layers.1"],
        "rank_pattern": {r"^layers\.0": 3},
        "alpha_pattern": {r"^layers\.0": 11, "^more.layers.0": 2},
    },
    "rslora": {"use_rslora": True},
    "the scale of our own": {"lora_alpha": 8},
    "a head": {"modules_to_save": ["head"]},
    "a head and a layer": {"modules_to_save": ["head", "conv1"], "target_modules": ["conv2"]},
}


@pytest.mark.parametrize("name", CONFIGS)
def test_what_peft_trained_is_served_and_goes_back_without_a_difference(
    base, format_of_base, tmp_path, x, name
):
    expected, path = trained_by_peft(tmp_path / "peft", x, **CONFIGS[name])
    adapter = format_of_base.read(path)
    assert torch.equal(served(base, adapter, x), expected)
    assert not torch.equal(served(base, replace(adapter, tensors={}, scales={}), x), expected)
    content = format_of_base.write(adapter)
    assert torch.equal(loaded_by_peft(content, tmp_path / "again", x), expected)
    (tmp_path / "again.zip").write_bytes(content)
    assert format_of_base.read(tmp_path / "again.zip").id == adapter.id


def drawn(base, **shapes):
    """Make a LoRA adapter with a head, as our own method does, of drawn numbers."""
    draw = torch.Generator().manual_seed(7)
    tensors = {
        "layers.0.lora_a": torch.randn(2, 24, generator=draw),
        "layers.0.lora_b": torch.randn(6, 2, generator=draw),
        "layers.1.lora_a": torch.randn(3, 6, generator=draw),
        "layers.1.lora_b": torch.randn(6, 3, generator=draw),
        "conv2.lora_a": torch.randn(2, 4, 3, 3, generator=draw),
        "conv2.lora_b": torch.randn(4, 1, 1, 1, generator=draw),
        "head.weight": torch.randn(3, 6, generator=draw),
    }
    return Adapter(tensors, LABELS, "lora", BASE, {"layers.1": 1 / 3})


def test_peft_loads_an_adapter_of_ours_without_a_difference(base, format_of_base, tmp_path, x):
    """The head's bias is not in it: PEFT stores modules whole, with the base's."""
    adapter = drawn(base)
    content = format_of_base.write(adapter)
    assert torch.equal(loaded_by_peft(content, tmp_path / "ours", x), served(base, adapter, x))


@pytest.mark.parametrize("method", ["head", "start"])
def test_a_head_alone_goes_to_peft_too(base, format_of_base, tmp_path, x, method):
    tensors = {n: t for n, t in drawn(base).tensors.items() if n.startswith("head.")}
    adapter = Adapter(tensors, LABELS, method, BASE)
    content = format_of_base.write(adapter)
    assert torch.equal(loaded_by_peft(content, tmp_path / "ours", x), served(base, adapter, x))


def test_labels_method_and_base_of_ours_come_back(format_of_base, base, tmp_path):
    (tmp_path / "a.zip").write_bytes(format_of_base.write(drawn(base)))
    adapter = format_of_base.read(tmp_path / "a.zip")
    assert (adapter.labels, adapter.method, adapter.base) == (LABELS, "lora", BASE)
    other = replace(format_of_base, base="f" * 16)
    with pytest.raises(WeightsError, match=f"on base {BASE}, and this is base {'f' * 16}"):
        check_fits(other.read(tmp_path / "a.zip"), "f" * 16, other.template, HEAD)


def test_rows_of_a_head_that_peft_trained_are_named_by_number_or_by_the_task(
    format_of_base, tmp_path, x
):
    _, path = trained_by_peft(tmp_path / "peft", x, modules_to_save=["head"])
    assert format_of_base.read(path).labels == ("label_0", "label_1", "label_2")
    assert replace(format_of_base, labels=("x", "y", "z")).read(path).labels == ("x", "y", "z")


def test_an_adapter_of_peft_is_gone_on_from_with_its_scales(make_runner, tmp_path):
    runner = make_runner(Letters())
    made = runner.adapt(examples("letters"), Recipe(max_steps=2)).adapter
    layer = next(name for name in made.tensors if name.endswith(".lora_a")).rpartition(".")[0]
    scaled = replace(made, scales={layer: 0.5})
    assert runner.predict(inputs("letters"), scaled) != runner.predict(inputs("letters"), made)
    again = runner.adapt(examples("letters"), Recipe(max_steps=1), begin=scaled).adapter
    assert again.scales == {layer: 0.5}
    runner.store.put(again, "ann")
    path = runner.adapters.export("ann", again.id, "peft", tmp_path)
    assert runner.adapters.take("bob", path)["id"] == again.id


@pytest.mark.parametrize("method", ["norms", "bias", "all", "match:.*"])
def test_a_method_that_peft_has_no_format_for_is_refused(format_of_base, base, method):
    with pytest.raises(InputError, match=f"made with method '{method[:3]}.*PEFT has no format"):
        format_of_base.write(replace(drawn(base), method=method))


def test_a_module_whose_name_peft_would_take_for_another_is_refused(format_of_base, base):
    wide = {"layers.0.weight": torch.ones(6, 24)}
    with pytest.raises(InputError, match=r"cannot store the module 'layers.0' .* more.layers.0"):
        format_of_base.write(replace(drawn(base), tensors=wide, scales={}))


def test_what_is_no_parameter_has_no_format():
    template = nn.ModuleDict({"head": parametrizations.spectral_norm(nn.Linear(3, 2))})
    name = "head.parametrizations.weight.0._u"
    adapter = Adapter({name: torch.ones(2)}, (), "head", BASE)
    with pytest.raises(InputError, match="PEFT has no format for .*_u, which is no parameter"):
        PeftFormat(template, BASE, HEAD).write(adapter)


def packed(path, config, tensors=b"", names=(CONFIG, TENSORS)):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in zip(names, (config, tensors), strict=False):
            archive.writestr(name, content)
    return path


def test_files_that_are_not_pefts_two_are_refused(format_of_base, tmp_path):
    path = tmp_path / "a.zip"
    for names in ((), (CONFIG,), (CONFIG, "adapter_model.bin"), (CONFIG, TENSORS, f"x/{CONFIG}")):
        config = json.dumps({"peft_type": "LORA"})
        with zipfile.ZipFile(path, "w") as archive:
            for name in names:
                archive.writestr(name, config)
        with pytest.raises(InputError, match="Pack the two files"):
            format_of_base.read(path)
    path.write_bytes(path.read_bytes()[:-30])
    with pytest.raises(InputError, match="the ZIP file cannot be read: its end is missing"):
        format_of_base.read(path)


def test_an_archive_that_unpacks_to_much_is_refused(format_of_base, tmp_path):
    path = packed(tmp_path / "a.zip", b" " * 2**21)
    assert path.stat().st_size < 10_000
    with pytest.raises(InputError, match="adapter_config.json has more than 1,048,576 bytes"):
        format_of_base.read(path)


def test_damaged_content_is_refused(format_of_base, tmp_path):
    path = packed(tmp_path / "a.zip", json.dumps({"peft_type": "LORA"}), b"hello")
    with pytest.raises(WeightsError, match="adapter_model.safetensors is no safetensors file"):
        format_of_base.read(path)
    content = bytearray(path.read_bytes())
    content[60:64] = b"\xff\xff\xff\xff"
    path.write_bytes(content)
    with pytest.raises(InputError, match="adapter_config.json in the ZIP file: it cannot be read"):
        format_of_base.read(path)


@pytest.mark.parametrize(
    "name", ["conv1.lora_A.weight", "lora_embedding_A", "base_model.model.x.lora_m"]
)
def test_a_tensor_that_is_no_part_of_plain_lora_is_refused(format_of_base, tmp_path, name):
    from safetensors.torch import save

    config = json.dumps({"peft_type": "LORA"})
    path = packed(tmp_path / "a.zip", config, save({name: torch.ones(1)}))
    with pytest.raises(InputError, match="which is no part of plain LoRA"):
        format_of_base.read(path)
