"""An adapter's file holds all of it, its id is its content, and bad files are refused."""

import json
import pickle
import socket
import subprocess
import sys
from base64 import b64encode
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import save

from cog_adapt.runner.errors import WeightsError
from cog_adapt.runner.modules.adapters import (
    Adapter,
    adapter_from_bytes,
    base_digest,
    load_adapter,
    read_weights,
)

BASE = "0123456789abcdef"


@pytest.fixture
def adapter():
    draw = torch.Generator().manual_seed(0)
    tensors = {
        "layer.query.lora_a": torch.randn(2, 8, generator=draw),
        "head.weight": torch.randn(3, 8, generator=draw),
    }
    return Adapter(tensors, ("ä", "b", "c"), "lora", BASE)


def test_a_round_trip_keeps_every_bit(adapter, tmp_path):
    path = tmp_path / "a.safetensors"
    path.write_bytes(adapter.to_bytes())
    again = load_adapter(path)
    assert again.id == adapter.id
    assert (again.labels, again.method, again.base) == (adapter.labels, "lora", BASE)
    assert set(again.tensors) == set(adapter.tensors)
    assert all(torch.equal(again.tensors[n], t) for n, t in adapter.tensors.items())


def test_a_process_starts_with_the_adapter_of_a_path_or_of_a_url(adapter, tmp_path):
    path, content = tmp_path / "a.safetensors", adapter.to_bytes()
    path.write_bytes(content)
    url = "data:application/octet-stream;base64," + b64encode(content).decode()
    assert read_weights(str(path)).id == read_weights(url).id == adapter.id


def test_weights_at_an_address_that_does_not_answer_are_refused_with_the_address():
    with socket.create_server(("127.0.0.1", 0)) as listening:
        address = f"http://127.0.0.1:{listening.getsockname()[1]}/a"
    with pytest.raises(WeightsError, match=f"COG_WEIGHTS '{address}' cannot be read: .*Check the"):
        read_weights(address)


def test_special_values_survive_a_round_trip(adapter):
    values = torch.tensor([0.0, -0.0, float("inf"), 1e-42, 3.4e38])
    again = adapter_from_bytes(replace(adapter, tensors={"a.b": values}).to_bytes(), "x")
    assert torch.equal(again.tensors["a.b"].view(torch.int32), values.view(torch.int32))


def test_the_id_depends_on_the_content_only(adapter):
    turned = dict(reversed(adapter.tensors.items()))
    strided = {name: tensor.t().clone().t() for name, tensor in adapter.tensors.items()}
    assert replace(adapter, tensors=turned).id == adapter.id
    assert replace(adapter, tensors=strided).id == adapter.id


def test_the_id_is_the_same_in_another_process(adapter, tmp_path):
    path = tmp_path / "a.safetensors"
    path.write_bytes(adapter.to_bytes())
    code = "import sys; from pathlib import Path; "
    code += "from cog_adapt.runner.modules.adapters import load_adapter; "
    code += "print(load_adapter(Path(sys.argv[1])).id)"
    ids = {
        subprocess.run(
            [sys.executable, "-c", code, str(path)],
            capture_output=True,
            text=True,
            check=True,
            cwd=Path(__file__).parents[4],
        ).stdout.strip()
        for _ in range(2)
    }
    assert ids == {adapter.id}


@pytest.mark.parametrize(
    "change",
    [{"labels": ("b", "ä", "c")}, {"method": "head"}, {"base": "f" * 16}, {"tensors": {}}],
    ids=str,
)
def test_another_content_has_another_id(adapter, change):
    assert replace(adapter, **change).id != adapter.id


def test_one_bit_makes_another_id(adapter):
    tensors = {name: tensor.clone() for name, tensor in adapter.tensors.items()}
    tensors["head.weight"].view(torch.int32)[0, 0] ^= 1
    assert replace(adapter, tensors=tensors).id != adapter.id


class Exploit:
    def __reduce__(self):
        return (pytest.fail, ("a pickle was opened",))


def header(text):
    return {"cog-adapt/1": text}


TENSORS = {"head.weight": torch.ones(1)}
BAD_FILES = {
    "empty": b"",
    "text": b"text,label\n",
    "pickle": pickle.dumps(Exploit()),
    "zip": b"PK\x03\x04" + b"\0" * 100,
    "huge header": (2**62).to_bytes(8, "little") + b"{}",
    "without metadata": save(TENSORS),
    "of another program": save(TENSORS, {"format": "pt"}),
    "metadata no json": save(TENSORS, header("{")),
    "metadata no object": save(TENSORS, header("[]")),
    "metadata lacks labels": save(TENSORS, header(json.dumps({"method": "a", "base": BASE}))),
}


@pytest.mark.parametrize("name", BAD_FILES)
def test_a_file_that_is_no_adapter_is_refused_by_name(tmp_path, name):
    path = tmp_path / "given.bin"
    path.write_bytes(BAD_FILES[name])
    with pytest.raises(WeightsError, match=r"given\.bin (is no safetensors file|holds no adapter)"):
        load_adapter(path)


@pytest.mark.parametrize("keep", [4, 8, 50, 200, -1])
def test_a_cut_file_is_refused(adapter, keep):
    with pytest.raises(WeightsError):
        adapter_from_bytes(adapter.to_bytes()[:keep], "cut")


def test_a_missing_file_is_told(tmp_path):
    with pytest.raises(WeightsError, match=r"gone\.safetensors cannot be read.*Check the path"):
        load_adapter(tmp_path / "gone.safetensors")


def test_a_bases_digest_is_of_its_bits_and_names():
    tensors = {"a": torch.ones(4), "b": torch.zeros(4)}
    digest = base_digest(tensors)
    assert len(digest) == 16
    assert base_digest({"a": torch.ones(4), "b": torch.zeros(4)}) == digest
    assert base_digest({"b": torch.zeros(4), "a": torch.ones(4)}) == digest
    assert base_digest({"a": torch.zeros(4), "b": torch.ones(4)}) != digest
    assert base_digest({"a": torch.ones(4), "b": -torch.zeros(4)}) != digest


def test_a_bases_digest_does_not_depend_on_where_it_lies():
    values = torch.randn(6, generator=torch.Generator().manual_seed(0))
    moved = torch.zeros(7)[1:].copy_(values)
    assert base_digest({"a": moved}) == base_digest({"a": values})


def test_scales_of_pairs_are_in_the_file_and_change_the_id_only_where_there_are_any():
    plain = Adapter({"x.lora_a": torch.ones(1)}, ("a",), "lora", "0" * 16)
    scaled = replace(plain, scales={"x": 0.5})
    assert adapter_from_bytes(scaled.to_bytes(), "x").scales == {"x": 0.5}
    assert adapter_from_bytes(plain.to_bytes(), "x").scales == {}
    assert "scales" not in plain.header
    assert scaled.id != plain.id


@pytest.mark.parametrize(
    "header",
    [
        '{"labels": "ab", "method": "m", "base": "b"}',
        "[]",
        "3",
        '{"labels": [["a"]], "method": "m", "base": "b"}',
        '{"labels": [], "method": 1, "base": "b"}',
        '{"labels": [], "method": "m", "base": "b", "scales": 3}',
    ],
)
def test_a_header_of_other_types_is_refused(header):
    content = save({"x": torch.ones(1)}, {"cog-adapt/1": header})
    with pytest.raises(WeightsError, match="holds no adapter"):
        adapter_from_bytes(content, "the file")


def test_files_of_peft_are_told_where_they_go():
    content = save({"base_model.model.query.lora_A.weight": torch.ones(1, 2)})
    with pytest.raises(WeightsError, match=r"PEFT's names: put it into a .zip .* `adapter`\.$"):
        adapter_from_bytes(content, "the file")
    with pytest.raises(WeightsError, match=r"no safetensors file but a .zip. Upload .* `adapter`"):
        adapter_from_bytes(b"PK\x03\x04" + b"\xff" * 90, "the file")
