"""Each bad input gets one line that names the fix. Nothing here may end in a traceback."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from kernelwright.errors import UserError
from kernelwright.graph import Capture

HEAD = "import torch\nimport torch.nn as nn\nimport torch.nn.functional as F\n"
TAIL = "def get_inputs():\n    return [torch.randn(8, 16)]\ndef get_init_inputs():\n    return []\n"


def model(forward: str, *, init: str = "pass", arguments: str = "x", tail: str = TAIL) -> str:
    """Returns a file in the class contract; statements are separated by semicolons."""
    return (
        HEAD
        + f"class Model(nn.Module):\n    def __init__(self):\n        super().__init__(); {init}\n"
        + f"    def forward(self, {arguments}):\n        {forward}\n"
        + tail
    )


def drawing(expression: str) -> str:
    return f"def get_inputs():\n    return {expression}\ndef get_init_inputs():\n    return []\n"


# name: (file's text, words of the message, words of the fix)
CONTENT = {
    "syntax error": ("def f(x):\n    return x +\n", "user.py:2: invalid syntax: `return x +`", "correct the syntax"),
    "no Model": ("def gelu(x):\n    return x\n", "defines no Model; it defines gelu", "user.py:gelu --input"),
    "only a class": ("class Net:\n    pass\n", "defines no Model; it defines Net", "Model = Net"),
    "nothing": ("x = 1\n", "defines no Model and no function", "built-in's name"),
    "no get_inputs": (
        model("return x", tail=""),
        "not get_inputs and get_init_inputs",
        "def get_inputs(): return [torch.randn(64, 64)]` and `def get_init_inputs(): return []`",
    ),
    "missing package": (
        "import not_there.deep\n" + model("return x"),
        "No module named 'not_there'",
        "pip install not_there",
    ),
    "missing name": (
        "from torch import not_there\n" + model("return x"),
        "cannot import name 'not_there'",
        "correct the import",
    ),
    "relative import": ("from .other import f\n" + model("return x"), "user.py:1: relative import", "without the dot"),
    "raises at import": ("value = 1 / 0\n" + model("return x"), "user.py:1: executing", "correct the reference"),
    "exits at import": ("raise SystemExit(3)\n" + model("return x"), "raised SystemExit", "correct the reference"),
    "exits in forward": (
        model("raise SystemExit(3)"),
        "user.py:8: the reference raised SystemExit: 3",
        "correct the reference",
    ),
    "interrupts itself": (
        model("raise KeyboardInterrupt"),
        "user.py:8: the reference raised KeyboardInterrupt",
        "correct the reference",
    ),
    "one long line": (
        "x = " + "(" * 3000 + "\n",
        "user.py:1: too many nested parentheses: `x = ...`",
        "correct the syntax",
    ),
    "zero bytes": ("x = 1\0\n", "user.py: source code string cannot contain null bytes", "correct the syntax"),
    "constructor raises": (
        model("return x", init="raise ValueError('width must be even')"),
        "user.py:6: Model(*get_init_inputs()) raised ValueError: width must be even",
        "correct the reference",
    ),
    "wrong shapes": (
        model("return x @ torch.ones(3, 3)"),
        "user.py:8: the reference raised RuntimeError: mat1 and mat2 shapes cannot be multiplied (8x16 and 3x3)",
        "correct the reference",
    ),
    "too many inputs": (
        model("return x", tail=drawing("[torch.ones(2), torch.ones(2)]")),
        "takes 2 positional arguments but 3 were given",
        "correct the reference",
    ),
    "get_inputs raises": (
        model("return x", tail=drawing("[torch.rand(missing)]")),
        "user.py:10: get_inputs() raised NameError: name 'missing' is not defined",
        "correct the reference",
    ),
    "no forward": (
        HEAD + "class Model(nn.Module):\n    pass\n" + TAIL,
        "Model has no forward",
        "define `def forward",
    ),
    "not a module": (HEAD + "class Model:\n    pass\n" + TAIL, "Model is not a torch.nn.Module", "derive it"),
    "dropout module": (
        model("return self.drop(x)", init="self.drop = nn.Dropout(0.5)"),
        "not deterministic: it uses Dropout (drop)",
        "--eval switches dropout off",
    ),
    "dropout function": (model("return F.dropout(x)"), "it uses aten.", "--eval switches dropout off"),
    "random operator": (
        model("return x + torch.rand_like(x)"),
        "not deterministic: it uses aten.rand_like.default",
        "in get_inputs",
    ),
    "random attribute": (
        model("return x + self.table", init="self.table = torch.randn(16)"),
        "its attribute table is drawn anew",
        "self.register_buffer('table', ...)",
    ),
    "random global": (
        "import torch\nW = torch.randn(16)\n" + model("return x + W"),
        "its global W is drawn anew",
        "make it an input",
    ),
    "random structure": (
        model("return x", init="self.w = nn.Parameter(torch.randn(int(torch.randint(1, 1000, (1,)))))"),
        "other parameters each time it is constructed",
        "fix its structure",
    ),
    "running statistics": (
        model("return self.norm(x)", init="self.norm = nn.BatchNorm1d(16)"),
        "forward changes norm.running_mean (BatchNorm1d)",
        "try --eval",
    ),
    "counter buffer": (
        model("self.calls += 1; return x * self.calls", init="self.register_buffer('calls', torch.zeros(1))"),
        "forward changes calls, so",
        "try --eval",
    ),
    "input in place, without effect on this draw": (
        model("return F.relu(x, inplace=True) + 1", tail=drawing("[torch.rand(8, 16)]")),
        "changes its input x in place",
        "x = x.clone()",
    ),
    "input in place through a view of it": (
        model("x.t()[0].add_(1); return x * 2"),
        "changes its input x in place",
        "x = x.clone()",
    ),
    "output written into an input": (
        model("return torch.mul(x, 2, out=y)", arguments="x, y", tail=drawing("[torch.ones(2), torch.zeros(2)]")),
        "changes its input y in place",
        "y = y.clone()",
    ),
    "two inputs that share memory": (
        model("y.add_(1); return x[:2] + y", arguments="x, y", tail=drawing("[(t := torch.zeros(4)), t[:2]]")),
        "in place",
        ".clone()",
    ),
    "parameter in place, without effect on this draw": (
        model("self.w.clamp_(min=0); return x * self.w", init="self.w = nn.Parameter(torch.ones(16))"),
        "forward changes w, so",
        "try --eval",
    ),
    "scratch memory in a buffer": (
        model("return torch.add(x, 1, out=self.b)", init="self.register_buffer('b', torch.zeros(8, 16))"),
        "forward changes b, so",
        "try --eval",
    ),
    "first answer kept": (
        model("self.kept = x * 2 if self.kept is None else self.kept; return self.kept + 0", init="self.kept = None"),
        "keeps something from one call for the next",
        "in every call",
    ),
    "first answer kept outside of the module": (
        "KEPT = []\n" + model("KEPT.append(x.sum()); return x * KEPT[0]"),
        "keeps something from one call for the next",
        "in every call",
    ),
    "input in place": (model("return x.mul_(2)"), "changes its input x in place", "x = x.clone()"),
    "NaN": (model("return torch.log(x)"), "elements NaN (first at [", "domain of every log"),
    "infinite": (
        model("return 1 / (x - x)"),
        "output out has 128 of 128 elements infinite (first at [0, 0])",
        "domain of every log",
    ),
    "NaN input": (
        model("return x.nan_to_num()", tail=drawing("[torch.full((2, 3), float('nan'))]")),
        "input x has 6 of 6 elements NaN",
        "finite values",
    ),
    "dict": (model("return {'loss': x.sum(), 'y': x}"), "returns a dict with the keys loss, y", "tuple of tensors"),
    "None": (model("x * 2"), "returns None", "tuple of tensors"),
    "number": (model("return x.sum().item()"), "returns a float", "tuple of tensors"),
    "nested": (model("return x, (x, x)"), "element 1 is a tuple", "flat tuple"),
    "empty tuple": (model("return ()"), "returns nothing", "tuple of tensors"),
    "list input": (
        model("return x + ys[0]", arguments="x, ys", tail=drawing("[torch.ones(2), [torch.ones(2)]]")),
        "input ys is a list",
        "arguments of their own",
    ),
    "array input": (
        model(
            "return x + torch.from_numpy(y)",
            arguments="x, y",
            tail=drawing("[torch.ones(2), __import__('numpy').ones(2)]"),
        ),
        "input y is a NumPy ndarray",
        "torch.from_numpy",
    ),
    "no tensor": (model("return x", tail=drawing("[3]")), "gives no tensor", "list of tensors"),
    "empty tensor": (
        model("return x * 2", tail=drawing("[torch.randn(0, 4)]")),
        "input x is empty: its shape is [0, 4]",
        "at least 1",
    ),
    "empty output": (model("return x[:0]"), "the output is empty", "at least 1"),
    "complex": (
        model("return x.abs()", tail=drawing("[torch.randn(4, dtype=torch.complex64)]")),
        "input x is complex64",
        "use one of float64",
    ),
    "sparse": (
        model("return x.to_dense()", tail=drawing("[torch.eye(4).to_sparse()]")),
        "input x is sparse_coo",
        "dense tensor",
    ),
    "changing shape": (
        model("return x * 2", tail=drawing("[torch.randn(int(torch.randint(1, 10**6, (1,))))]")),
        "in one draw and float32[",
        "fix its shape",
    ),
    "shape of the values": (
        model("return x[x > 0]", tail=drawing("[torch.randn(4096)]")),
        "the outputs are float32[",
        "do not depend on the inputs' values",
    ),
    "changing number": (
        model("return x * n", arguments="x, n", tail=drawing("[torch.ones(4), __import__('random').random()]")),
        "input n is 0.",
        "same one each time",
    ),
    "lazy module": (
        model("return self.fc(x)", init="self.fc = nn.LazyLinear(4)"),
        "Model has lazy modules",
        "take their sizes",
    ),
    # What torch says depends on its build and on the machine; the fix does not.
    "CUDA": (model("return x.cuda()"), "", "remove .cuda()"),
    "CUDA input": (model("return x", tail=drawing("[torch.ones(4, device='cuda')]")), "", "remove .cuda()"),
    "allocation": (
        model("return x", tail=drawing("[torch.ones(1 << 44)]")),
        "it asks for 70368.7 GB at once, but",
        "smaller shapes",
    ),
    "data file": (
        model("return x", init="self.w = torch.load('weights.pt')"),
        "No such file or directory: 'weights.pt'",
        "in the folder",
    ),
}


@pytest.mark.parametrize("name", CONTENT)
def test_a_bad_file_gets_one_line_with_the_fix(
    name: str, load: Callable[..., Capture], write: Callable[..., Path]
) -> None:
    text, message, fix = CONTENT[name]
    with pytest.raises(UserError) as caught:
        load(write(text))
    assert message in caught.value.message
    assert fix in caught.value.fix
    assert "\n" not in str(caught.value)


FUNCTIONS = (
    "import torch\ndef scale(x, factor, *, power=2):\n    return x * factor**power\nclass Net: pass\nalias = scale\n"
)
# name: (source relative to the folder, inputs, words of the message, words of the fix)
SOURCES = {
    "no such file": ("usr.py", (), "no such file", "user.py?"),
    "no such built-in": ("sofmax", (), "no built-in or file 'sofmax'", "softmax"),
    "no such anything": ("zzzzzz", (), "no built-in or file", "kernelwright problems"),
    "folder": (".", (), "is a folder", "user.py"),
    "not Python": ("notes.txt", (), "is not a .py file", "give a Python file"),
    "no such function": ("user.py:scal", (), "has no function 'scal'", "user.py:scale?"),
    "no function name": ("user.py:", (), "names no function", "file.py:function"),
    "class": ("user.py:Net", (), "Net is a class", "name it Model"),
    "alias": ("user.py:alias", (), "alias is not defined with `def`", "name the file"),
    "no inputs": (
        "user.py:scale",
        (),
        "takes x, factor, but no --input",
        '--input "float32[1024,1024]" --input "float32',
    ),
    "too few inputs": ("user.py:scale", ("float32[4]",), "takes x, factor, but 1 --input is given", "--input"),
    "too many inputs": ("user.py:scale", ("float32[4]",) * 3, "takes x, factor, but 3 --input are given", "--input"),
    "inputs of a built-in": ("softmax", ("float32[4]",), "draws its own inputs", "leave out --input"),
    "alias of a dtype": ("user.py:scale", ("half[4]", "float32[]"), "unknown dtype 'half'", "float16?"),
    "too large": (
        "user.py:scale",
        ("float32[4000000,4000000]", "float32[]"),
        "too little memory: its tensors take 64000.0 GB",
        "use tensors at most",
    ),
    "shapes that do not fit": (
        "user.py:scale",
        ("float32[4,3]", "float32[5]"),
        "user.py:3: the reference raised RuntimeError: The size of tensor a (3) must match",
        "--input (it got x=float32[4,3], factor=float32[5]), or correct it",
    ),
}


@pytest.mark.parametrize("name", SOURCES)
def test_a_bad_source_gets_one_line_with_the_fix(
    name: str,
    load: Callable[..., Capture],
    write: Callable[..., Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    source, inputs, message, fix = SOURCES[name]
    write(FUNCTIONS)
    (tmp_path / "notes.txt").write_text("not Python")
    with pytest.raises(UserError) as caught:
        load(source, inputs=inputs)
    assert message in caught.value.message
    assert fix in caught.value.fix
    assert "\n" not in str(caught.value)


def test_a_byte_order_mark_is_no_syntax_error(load: Callable[..., Capture], tmp_path: Path) -> None:
    path = tmp_path / "user.py"
    path.write_bytes(b"\xef\xbb\xbf" + model("return x * 2").replace("\n", "\r\n").encode())
    assert load(path).graph is not None
