import pytest
import torch

from kernelwright.errors import SourceError
from kernelwright.reference_program import load_reference, state_of
from kernelwright.types import SourceFile, TensorSpec

CLASS = """
import torch
from scale import FACTOR
class Model(torch.nn.Module):
    def __init__(self, width):
        super().__init__()
        self.ln = torch.nn.LayerNorm(width)
        self.register_buffer("shift", torch.ones(width))
    def forward(self, x, power):
        return self.ln(x) * FACTOR + self.shift ** power
def get_inputs():
    return [torch.randn(4, 8), 2]
def get_init_inputs():
    return [8]
"""
FILES = (SourceFile(path="model.py", text=CLASS), SourceFile(path="scale.py", text="FACTOR = 3.0\n"))


def test_class_contract_in_any_precision_with_a_carried_import_and_a_plain_argument() -> None:
    reference = load_reference(FILES, "Model")
    module = reference.make_module(1, torch.float64)
    (x,) = reference.make_inputs(5)
    (out,) = reference.call(module, (x.double(),))
    expected = torch.nn.functional.layer_norm(x.double(), (8,)) * 3.0 + 1.0
    torch.testing.assert_close(out, expected, rtol=1e-12, atol=1e-12)
    assert [name for name, _ in state_of(module)] == ["ln.weight", "ln.bias", "shift"]
    assert torch.equal(reference.make_inputs(5)[0], x)
    assert not torch.equal(reference.make_inputs(6)[0], x)


def test_two_loads_share_no_code_and_take_their_own_carried_files() -> None:
    first = load_reference(FILES, "Model")
    second = load_reference((FILES[0], SourceFile(path="scale.py", text="FACTOR = 0.0\n")), "Model")
    assert first.function.__code__ is not second.function.__code__
    (x,) = second.make_inputs(1)
    torch.testing.assert_close(second.call(second.make_module(1), (x,))[0], torch.ones(4, 8))


def test_function_contract_draws_by_spec() -> None:
    file = SourceFile(path="f.py", text="def f(x, index):\n    return {'a': x * 2, 'b': [x[index]]}\n")
    specs = (
        TensorSpec(name="x", shape=(32,), dtype="float32", role="input", low=-1, high=1),
        TensorSpec(name="index", shape=(5,), dtype="int64", role="input", low=30, high=31),
    )
    reference = load_reference((file,), "f", specs=specs)
    x, index = reference.make_inputs(3)
    assert x.abs().max() <= 1
    assert set(index.tolist()) <= {30, 31}
    a, b = reference.call(reference.make_module(0), (x, index))
    assert torch.equal(a, x * 2)
    assert torch.equal(b, x[index])


@pytest.mark.parametrize(
    ("text", "entry", "words"),
    [
        ("def f(:\n", "f", "r.py:1"),
        ("import no_such_module_anywhere\n", "f", "r.py:1"),
        ("def g(): pass\n", "f", "it defines: g"),
    ],
)
def test_faults_of_the_file_name_the_place(text: str, entry: str, words: str) -> None:
    with pytest.raises(SourceError, match=words):
        load_reference((SourceFile(path="r.py", text=text),), entry)


def test_faults_of_a_call_name_the_line() -> None:
    reference = load_reference((SourceFile(path="r.py", text="def f(x):\n    return x @ x\n"),), "f")
    with pytest.raises(SourceError, match=r"r\.py:2: the reference raised RuntimeError"):
        reference.call(reference.make_module(0), (torch.ones(2, 3),))


def test_what_an_exception_says_may_be_missing_or_endless() -> None:
    text = (
        "class Odd(Exception):\n    def __str__(self): raise ValueError\n"
        "def f(x):\n    raise Odd if x.shape[0] > 1 else RuntimeError('z' * 100_000)\n"
    )
    reference = load_reference((SourceFile(path="f.py", text=text),), "f")
    module = reference.make_module(0)
    with pytest.raises(SourceError, match="raised Odd: its message cannot be read"):
        reference.call(module, (torch.ones(2),))
    with pytest.raises(SourceError, match="raised RuntimeError: zzz") as caught:
        reference.call(module, (torch.ones(1),))
    assert len(caught.value.message) < 500
