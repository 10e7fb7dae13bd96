"""LoRA files of image models: diffusers and kohya's programs read ours, and theirs are read."""

import json

import pytest
import torch
from safetensors.torch import load, save
from torch import nn

from cog_adapt.runner.errors import InputError, WeightsError
from cog_adapt.runner.modules.adapters import FORMAT, Adapter
from cog_adapt.runner.storage.adapter_files import AdapterFiles
from cog_adapt.runner.storage.kohya_names import kohya_names
from cog_adapt.runner.storage.lora_files import LoRAFiles
from cog_adapt.runner.storage.peft_format import PeftFormat

diffusers = pytest.importorskip("diffusers")
pytest.importorskip("peft")

RANK = 2
BLOCKS = ("to_q", "to_k", "to_v", "to_out.0", "add_q_proj", "add_k_proj", "add_v_proj")
LAYERS = (*BLOCKS, "to_add_out", "net.0.proj", "net.2", "proj_mlp", "norm.linear", "norm1.linear")


def flux(heads=2, width=8, device="cpu"):
    """A transformer of FLUX's kind as a part of a model."""
    torch.manual_seed(0)
    with torch.device(device):
        transformer = diffusers.FluxTransformer2DModel(
            patch_size=1,
            in_channels=4,
            num_layers=1,
            num_single_layers=2,
            attention_head_dim=width,
            num_attention_heads=heads,
            joint_attention_dim=6,
            pooled_projection_dim=6,
            axes_dims_rope=(width // 2, width // 4, width // 4),
        )
    return nn.ModuleDict({"transformer": transformer, "style": nn.Embedding(1, 6)})


def paths_of(model):
    return [
        name
        for name, module in model.named_modules()
        if isinstance(module, nn.Linear) and name.endswith(LAYERS) and "blocks" in name
    ]


def adapter_for(model, paths=None, **more):
    draws = torch.Generator().manual_seed(1)
    tensors = {"style.weight": torch.randn(1, 6, generator=draws)}
    for path in paths or paths_of(model):
        out, size = model.get_submodule(path).weight.shape
        tensors[f"{path}.lora_a"] = torch.randn(RANK, size, generator=draws) / 4
        tensors[f"{path}.lora_b"] = torch.randn(out, RANK, generator=draws) / 4
    return Adapter(tensors, ("TOK",), "lora", "b" * 16, **more)


def files_for(model):
    return LoRAFiles(PeftFormat(model, "b" * 16, r"style\.weight"))


def products(adapter):
    """What each pair adds to its layer's weights."""
    paths = [name.removesuffix(".lora_a") for name in adapter.tensors if name.endswith(".lora_a")]
    scales = {path: adapter.scales.get(path, 2.0) for path in paths}
    of = adapter.tensors
    return {
        p: (of[f"{p}.lora_b"] @ of[f"{p}.lora_a"]) * scales[p]
        for p in paths
        if of[f"{p}.lora_b"].any()
    }


def assert_same(ours, theirs):
    assert ours.keys() == theirs.keys()
    for name, product in ours.items():
        assert torch.allclose(product, theirs[name], atol=1e-5), name


def inputs(batch=2, tokens=4):
    draws = torch.Generator().manual_seed(2)
    return {
        "hidden_states": torch.randn(batch, tokens, 4, generator=draws),
        "encoder_hidden_states": torch.randn(batch, 3, 6, generator=draws),
        "pooled_projections": torch.randn(batch, 6, generator=draws),
        "timestep": torch.rand(batch, generator=draws),
        "img_ids": torch.zeros(tokens, 3),
        "txt_ids": torch.zeros(3, 3),
        "return_dict": False,
    }


def merged(model, adapter):
    with torch.no_grad():
        for path, product in products(adapter).items():
            model.get_submodule(path).weight += product
    return model


@pytest.mark.parametrize("scales", [{}, {"transformer.transformer_blocks.0.attn.to_q": 0.5}])
def test_diffusers_computes_with_our_file_what_the_adapter_computes(scales):
    model = flux()
    adapter = adapter_for(model, scales=scales)
    tensors = load(files_for(model).write(adapter, "diffusers"))
    with torch.inference_mode():
        ours = merged(flux(), adapter)["transformer"](**inputs())[0]
        plain = model["transformer"](**inputs())[0]
        model["transformer"].load_lora_adapter(tensors, prefix="transformer")
        theirs = model["transformer"](**inputs())[0]
    assert torch.allclose(ours, theirs, atol=1e-5)
    assert not torch.allclose(plain, theirs, atol=1e-2)


@pytest.mark.parametrize("format", ["diffusers", "kohya"])
def test_a_file_comes_back_as_the_same_adapter(format):
    model, files = flux(), files_for(flux())
    adapter = adapter_for(model, scales={"transformer.transformer_blocks.0.attn.to_k": 0.5})
    again = files.read(files.write(adapter, format), "the file")
    assert_same(products(adapter), products(again))
    assert (again.labels, again.method, again.base) == (("TOK",), "lora", "b" * 16)
    assert torch.equal(again.tensors["style.weight"], adapter.tensors["style.weight"])
    assert again.rank == RANK
    assert files.write(again, format) == files.write(adapter, format)


def test_diffusers_reads_our_kohya_file_of_flux_at_its_own_width():
    model = flux(heads=24, width=128, device="meta")
    adapter = adapter_for(model)
    tensors = load(files_for(model).write(adapter, "kohya"))
    read = diffusers.FluxPipeline.lora_state_dict(tensors)
    found = {
        name.removesuffix(".lora_A.weight"): (read[name.replace("lora_A", "lora_B")], read[name])
        for name in read
        if "lora_A" in name
    }
    pairs = {path: [adapter.tensors[f"{path}.lora_{x}"] for x in "ba"] for path in found}
    assert {f"{path}.lora_a" for path in found} | {f"{path}.lora_b" for path in found} == (
        adapter.tensors.keys() - {"style.weight"}
    )
    for path, (b, a) in found.items():  # the whole products have 200 million values
        ours, given = pairs[path], torch.randn(a.shape[1], 3)
        assert torch.allclose(ours[0] @ (ours[1] @ given) * 2.0, b @ (a @ given), atol=1e-3), path


def test_kohya_names_are_those_of_the_programs():
    names = kohya_names(flux())
    block = "transformer.transformer_blocks.0.attn."
    assert names["lora_unet_double_blocks_0_img_attn_qkv"] == tuple(block + x for x in BLOCKS[:3])
    assert names["lora_unet_single_blocks_1_linear2"] == (
        "transformer.single_transformer_blocks.1.proj_out",
    )
    assert "lora_transformer_transformer_blocks_0_attn_to_q" in names
    model = nn.ModuleDict({"unet": nn.ModuleDict({"mid": nn.ModuleList([nn.Linear(2, 2)])})})
    assert kohya_names(model) == {"lora_unet_mid_0": ("unet.mid.0",)}


def test_a_file_of_kohya_whose_layers_share_an_a_is_read_with_its_alpha():
    model = flux()
    a, b = torch.randn(4, 16), torch.randn(48, 4)
    stem = "lora_unet_double_blocks_0_img_attn_qkv"
    content = {f"{stem}.lora_down.weight": a, f"{stem}.lora_up.weight": b}
    content[f"{stem}.alpha"] = torch.tensor(2.0)
    found = products(files_for(model).read(save(content), "the file"))
    whole = torch.cat([found[f"transformer.transformer_blocks.0.attn.{x}"] for x in BLOCKS[:3]])
    assert torch.allclose(whole, b @ a * 2 / 4, atol=1e-5)


def test_a_file_of_diffusers_own_script_has_the_scale_of_its_config():
    path = "transformer.transformer_blocks.0.attn.to_q"
    content = {
        f"{path}.lora_A.weight": torch.randn(4, 16).bfloat16(),
        f"{path}.lora_B.weight": torch.randn(16, 4).bfloat16(),
    }
    config = {"transformer.r": 4, "transformer.lora_alpha": 2, "transformer.bias": "none"}
    file = save(content, {"lora_adapter_metadata": json.dumps(config), "format": "pt"})
    found = files_for(flux()).read(file, "the file")
    a, b = (content[f"{path}.lora_{x}.weight"].float() for x in "AB")
    assert torch.allclose(products(found)[path], b @ a * 0.5)
    assert (found.labels, found.method, found.base) == ((), "lora", "b" * 16)
    bare = {name.removeprefix("transformer."): tensor for name, tensor in content.items()}
    assert path in products(files_for(flux()).read(save(bare), "the file"))


def test_an_adapter_without_pairs_of_a_pipeline_is_refused():
    model = nn.ModuleDict({"net": nn.Linear(3, 2)})
    files = LoRAFiles(PeftFormat(model, "b" * 16, "head"))
    of_other = Adapter(
        {"net.lora_a": torch.ones(1, 3), "net.lora_b": torch.ones(2, 1)}, (), "lora", "b" * 16
    )
    for adapter in (of_other, Adapter({}, (), "head", "b" * 16)):
        with pytest.raises(InputError, match="diffusers files hold LoRA pairs of a pipe"):
            files.write(adapter, "diffusers")
    unnamed = adapter_for(flux(), ["transformer.norm_out.linear"])
    with pytest.raises(InputError, match=r"no name for the layer transformer\.norm_out\.linear"):
        LoRAFiles(PeftFormat(nn.Identity(), "b" * 16, "head")).write(unnamed, "kohya")


Q = "transformer.transformer_blocks.0.attn.to_q"
A, B = f"{Q}.lora_A.weight", f"{Q}.lora_B.weight"
PAIR = {A: torch.ones(2, 16), B: torch.ones(16, 2)}
QKV = "lora_unet_double_blocks_0_img_attn_qkv"
DOWN, UP = f"{QKV}.lora_down.weight", f"{QKV}.lora_up.weight"


@pytest.mark.parametrize(
    ("tensors", "config", "said"),
    [
        ({A: torch.ones(2, 16)}, None, "no pair of matrices"),
        ({A: torch.ones(2, 16), B: torch.ones(16, 3)}, None, "no pair of matrices"),
        ({A: torch.ones(2), B: torch.ones(2)}, None, "no pair of matrices"),
        (PAIR | {f"{Q}.lora_magnitude_vector": torch.ones(16)}, None, "no part of plain LoRA"),
        (PAIR | {f"{Q}.alpha": torch.tensor(float("nan"))}, None, "is a number up to"),
        (PAIR | {f"{Q}.alpha": torch.ones(2)}, None, "is a number up to"),
        (PAIR, "{", "is no JSON"),
        (PAIR, "[" * 50_000, "is no JSON"),
        (PAIR, "[]", "is no JSON object"),
        (PAIR, '{"transformer.use_dora": true}', "sets use_dora"),
        (PAIR, '{"transformer.lora_alpha": "x"}', "it is a number"),
        ({n.replace("0", "7", 1): t for n, t in PAIR.items()}, None, "of another base"),
        ({DOWN: torch.ones(2, 16), UP: torch.ones(9, 2)}, None, "has 9 outputs, but the base 48"),
        (
            {n.replace("double", "triple"): t for n, t in ((DOWN, PAIR[A]), (UP, PAIR[B]))},
            None,
            "no layer lora_unet_triple_blocks_0_img_attn_qkv, nor 0 others",
        ),
    ],
)
def test_a_file_that_is_no_adapter_of_this_base_is_refused_in_words(tensors, config, said):
    content = save(tensors, {"lora_adapter_metadata": config} if config else None)
    with pytest.raises(InputError, match=said):
        files_for(flux()).read(content, "the file")


def test_files_are_told_apart_by_their_content(tmp_path):
    model = flux()
    adapter = adapter_for(model)
    about = PeftFormat(model, "b" * 16, r"style\.weight")
    files = AdapterFiles(lambda adapter: adapter, about, LoRAFiles(about))
    path = tmp_path / "file"
    for format in ("safetensors", "peft", "diffusers", "kohya"):
        content, ending = files.write(adapter, format)
        path.write_bytes(content)
        assert_same(products(adapter), products(files.read(path)))
        assert ending == ("zip" if format == "peft" else "safetensors")
    path.write_bytes(save({f"base_model.model.{A}": torch.ones(2, 16)}))
    with pytest.raises(WeightsError, match="PEFT's names"):
        files.read(path)


def test_a_header_of_ours_that_was_changed_is_not_trusted():
    content = save(PAIR, {FORMAT: json.dumps({"labels": 3, "base": "c" * 16})})
    found = files_for(flux()).read(content, "the file")
    assert (found.labels, found.base) == ((), "b" * 16)
