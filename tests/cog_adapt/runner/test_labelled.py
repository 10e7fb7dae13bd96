"""Label sets of examples, and answers with scores."""

import pytest
import torch

from cog_adapt import Example, InputError, label_scores, label_set


def test_labels_keep_their_order_of_appearance():
    assert label_set([Example("x", "b"), Example("y", "a"), Example("z", "b")]) == ("b", "a")
    assert label_set([]) == ()


def test_one_label_alone_is_refused():
    with pytest.raises(InputError, match="one class only: every example is labelled 'x'"):
        label_set([Example("a", "x"), Example("b", "x")])


@pytest.mark.parametrize("label", [["a"], {"name": "a"}, 3, None])
def test_a_label_that_is_no_text_is_refused_with_its_place(label):
    with pytest.raises(InputError, match="example 2 has the label .*, which is no text. Give"):
        label_set([Example("a", "x"), Example("b", label)])


def test_an_answer_has_the_best_label_and_all_scores():
    answers = label_scores(torch.tensor([[0.25, 0.75], [0.5, 0.5]]), ("a", "b"))
    assert answers == [
        {"label": "b", "scores": {"a": 0.25, "b": 0.75}},
        {"label": "a", "scores": {"a": 0.5, "b": 0.5}},
    ]


def test_a_head_of_other_labels_is_refused():
    with pytest.raises(InputError, match="the adapter has 3 labels and a head of 2 rows. Use a"):
        label_scores(torch.ones(1, 2), ("x", "y", "z"))
