"""An adapter of PEFT that cannot be trained as it is gets the remedy that PEFT has for it."""

import pytest
import torch

from gradient_check import check_gradients
from gradient_check.exam.known.plain import PROBE, Net, entropy

peft = pytest.importorskip("peft")


def adapted():
    torch.manual_seed(0)
    return peft.get_peft_model(Net(), peft.LoraConfig(target_modules=["inp"], r=2))


def failure(module, **options):
    (found,) = (
        f
        for f in check_gradients(module, (PROBE,), entropy, **options).findings
        if f.level == "FAIL"
    )
    return found


def test_a_merged_adapter_is_to_be_unmerged():
    module = adapted()
    module.merge_adapter()
    found = failure(module, trainable="lora_")
    assert found.code == "unused"
    assert "unmerge_adapter()" in found.message
    assert "`unused`" not in found.message


def test_a_disabled_adapter_is_to_be_enabled_and_another_one_to_be_set():
    module = adapted()
    module.base_model.disable_adapter_layers()
    assert "enable_adapter_layers()" in failure(module, trainable="lora_").message
    module = adapted()
    module.add_adapter("other", peft.LoraConfig(target_modules=["inp"], r=2))
    found = failure(module, trainable="other")
    assert "set_adapter" in found.message


def test_an_adapter_that_is_loaded_for_inference_is_to_be_loaded_as_trainable(tmp_path):
    adapted().save_pretrained(tmp_path)
    module = peft.PeftModel.from_pretrained(Net(), tmp_path)
    found = failure(module, trainable=lambda _, parameter: parameter.requires_grad)
    assert found.code == "nothing-trainable"
    assert "is_trainable=True" in found.message
    report = check_gradients(module, (PROBE,), entropy)
    assert "is_trainable=True" in str(report)
    trained = peft.PeftModel.from_pretrained(Net(), tmp_path, is_trainable=True)
    assert "is_trainable=True" not in str(check_gradients(trained, (PROBE,), entropy))
