"""Models are read from a folder, offline."""

import os
import shutil
import subprocess
import sys
from typing import Any

import pytest
import torch
from transformers import AutoModelForCausalLM

from cog_adapt.lm.models import model_name, read_config, read_model, read_tokenizer
from cog_adapt.runner.errors import WeightsError
from tests.cog_adapt.lm.tiny import write_model


@pytest.fixture(scope="module")
def gpt2(tmp_path_factory):
    return write_model(tmp_path_factory.mktemp("gpt2"), "gpt2")


def test_the_variable_names_the_model_and_an_argument_is_stronger(monkeypatch, tmp_path):
    monkeypatch.setenv("MODEL", "someone/model")
    assert model_name() == "someone/model"
    assert model_name(tmp_path) == str(tmp_path)


def test_the_layers_of_gpt2_become_linear_and_give_the_same(gpt2, capfd):
    module: Any = read_model(str(gpt2)).eval()
    assert capfd.readouterr().err == ""
    assert isinstance(module.transformer.h[0].attn.c_attn, torch.nn.Linear)
    ids = torch.tensor([[1, 2, 3]])
    theirs = AutoModelForCausalLM.from_pretrained(gpt2)(ids).logits
    torch.testing.assert_close(module(ids).logits, theirs, rtol=0, atol=1e-5)


READ = """
from cog_adapt.lm.models import model_name, read_model, read_tokenizer
print(type(read_model(model_name())).__name__, read_tokenizer(model_name()).is_fast)
"""


def test_an_id_of_hugging_face_is_read_from_its_cache_where_nothing_may_be_fetched(gpt2, tmp_path):
    kept = tmp_path / "hub" / "models--someone--model"
    shutil.copytree(gpt2, kept / "snapshots" / "0a1b")
    (kept / "refs").mkdir()
    (kept / "refs" / "main").write_text("0a1b")
    env = os.environ | {"HF_HOME": str(tmp_path), "HF_HUB_OFFLINE": "1", "MODEL": "someone/model"}
    command = [sys.executable, "-c", READ]
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["GPT2LMHeadModel", "True"]
    lacking = subprocess.run(
        command, env=env | {"MODEL": "someone/else"}, capture_output=True, text=True, check=False
    )
    assert "WeightsError: MODEL is 'someone/else'" in lacking.stderr


def test_what_cannot_be_read_is_named_with_the_remedy(tmp_path):
    with pytest.raises(WeightsError, match="cannot read it.*Name a folder with config.json"):
        read_config(str(tmp_path / "nothing"))


def test_a_folder_without_a_fast_tokenizer_is_refused(gpt2, tmp_path):
    folder = tmp_path / "model"
    shutil.copytree(gpt2, folder)
    (folder / "tokenizer.json").unlink()
    with pytest.raises(WeightsError, match="tokenizer"):
        read_tokenizer(str(folder))


def test_a_tokenizer_without_an_end_is_refused_and_one_without_padding_pads_with_it(gpt2, tmp_path):
    tokenizer = read_tokenizer(str(gpt2))
    tokenizer.pad_token = None
    tokenizer.save_pretrained(tmp_path)
    shutil.copy(gpt2 / "config.json", tmp_path)
    assert read_tokenizer(str(tmp_path)).pad_token == tokenizer.eos_token
    tokenizer.eos_token = None
    tokenizer.save_pretrained(tmp_path)
    with pytest.raises(WeightsError, match="has no `eos_token`"):
        read_tokenizer(str(tmp_path))
