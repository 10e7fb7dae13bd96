"""MODEL names a folder with a BERT that somebody has trained: the template serves and adapts it."""

from pathlib import Path

import pytest

from tests.cog_adapt.contract.serving import serving

transformers = pytest.importorskip("transformers")
pytest.importorskip("task", reason="the shipped task is not here")

ROOT = Path(__file__).parents[2]
ASKED = {"text": "where is the parcel", "method": "head"}
ROWS = [
    {"text": "where is my parcel", "label": "delivery"},
    {"text": "when will it come", "label": "delivery"},
    {"text": "give the money back", "label": "refund"},
    {"text": "i want my money", "label": "refund"},
]
WORDS = sorted({word for row in ROWS for word in row["text"].split()})


@pytest.fixture(scope="module")
def bert(tmp_path_factory):
    """A BERT of two layers in the files of Hugging Face, with a head that nobody asked for."""
    folder = tmp_path_factory.mktemp("bert")
    names = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS]
    (folder / "vocab.txt").write_text("\n".join(names))
    transformers.BertTokenizerFast(vocab=str(folder / "vocab.txt")).save_pretrained(folder)
    config = transformers.BertConfig(
        vocab_size=len(names),
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=64,
    )
    transformers.set_seed(0)
    transformers.BertForSequenceClassification(config).save_pretrained(folder)
    return folder


def test_a_folder_with_a_bert_is_served_and_adapted_without_a_line_of_code(bert, tmp_path):
    for name in ("predict.py", "task.py", "encoder.py"):
        (tmp_path / name).symlink_to(ROOT / name)
    env = {"MODEL": str(bert), "WEIGHTS_DIR": str(tmp_path / "weights"), "HF_HUB_OFFLINE": "1"}
    with serving("mirror", tmp_path, predict="predict.py:Predictor", env=env) as server:
        assert server.get("/selftest").json()["passed"] is True
        answer = server.output(**ASKED, examples=ROWS)
        assert answer["predictions"][0]["label"] == "delivery"
        assert set(answer["predictions"][0]["scores"]) == {"delivery", "refund"}
        assert (
            server.output(**ASKED, adapter=answer["adapter"])["predictions"]
            == (answer["predictions"])
        )
