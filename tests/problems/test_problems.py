from __future__ import annotations

import ast
import re

import pytest

from kernelwright import problems
from kernelwright.errors import UserError

WANTED = """rms_norm layer_norm softmax cross_entropy swiglu gelu_bias rotary masked_softmax cumsum group_norm
batch_norm_inference log_sum_exp topk_gather embedding_bag avg_pool2d max_pool2d huber_loss kl_divergence
cosine_similarity l2_normalize argmax depthwise_conv2d add_rms_norm attention_scores geglu_bias""".split()  # noqa: SIM905


def test_the_operations_that_users_ask_for_are_there() -> None:
    assert len(problems.names()) >= 26
    assert set(WANTED) <= set(problems.names())


def test_every_reference_has_an_entry_and_every_entry_a_reference() -> None:
    files = {path.stem for path in (problems.FOLDER / "reference").glob("*.py")}
    assert files == set(problems.names())
    assert not (problems.FOLDER / "reference" / "__init__.py").exists()


@pytest.mark.parametrize("name", problems.names())
def test_a_reference_is_in_the_class_contract_and_says_what_it_is(name: str) -> None:
    entry = problems.get(name)
    assert entry.name == name
    assert entry.model
    assert "\n" not in entry.description
    tree = ast.parse(problems.source_text(name))
    defined = {node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.ClassDef)}
    assert {"Model", "get_inputs", "get_init_inputs"} <= defined
    assert ast.get_docstring(tree)
    assert not re.search(r"manual_seed|\.cuda|device=", problems.source_text(name))


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("sofmax", "softmax"),
        ("RMSNorm", "rms_norm"),
        ("layernorm", "layer_norm"),
        ("crossentropy", "cross_entropy"),
        ("pool2d", "avg_pool2d"),
    ],
)
def test_an_unknown_name_is_answered_with_close_ones(typed: str, meant: str) -> None:
    with pytest.raises(UserError) as caught:
        problems.get(typed)
    assert repr(typed) in caught.value.message
    assert meant in caught.value.fix


def test_a_name_like_no_other_is_answered_with_the_list() -> None:
    with pytest.raises(UserError, match="kernelwright problems"):
        problems.source_text("qqqqqq")
