"""What the tile languages refuse, and what they make of plans: argument order, specialisation, descriptors, errors."""

from __future__ import annotations

from pathlib import Path

import pytest

from kernelwright.errors import MissingTool, UserError
from kernelwright.languages import candidate_from_file, python_source, table, triton_plan
from kernelwright.languages import triton as triton_language
from kernelwright.languages.cutile import Cutile
from kernelwright.languages.triton import Triton
from kernelwright.tiles import ptx
from kernelwright.types import (
    Artifact,
    Axis,
    Binding,
    Candidate,
    Failure,
    Launch,
    LaunchPlan,
    OptionValue,
    Problem,
    SourceFile,
    Step,
    digest,
    replace,
)

from . import tile_corpus

PROBLEM = tile_corpus.problem("add")
TRITON = "import triton\nimport triton.language as tl\n\n\n@triton.jit\n"
CUTILE = "import cuda.tile as ct\n\n\n@ct.kernel\n"
ADD = f"""{TRITON}def add(x, y, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(x + i, mask=i < n) + tl.load(y + i, mask=i < n), mask=i < n)
"""


def candidate(
    text: str, *, language: str = "triton", problem: Problem = PROBLEM, n: int | None = 1000, **options: OptionValue
) -> Candidate:
    arguments = [Binding(kind="tensor", name=name, ctype="float") for name in ("x", "y", "out")]
    if n is not None:
        arguments.append(Binding(kind="scalar", name="n", ctype="int32_t", scalar=n))
    step = Step(
        symbol="add", arguments=tuple(arguments), launch=Launch(grid=(8, 1, 1), block=(1, 1, 1)),
        options=tuple(options.items()),
    )  # fmt: skip
    return Candidate(
        problem=digest(problem), language=language, sources=(SourceFile(path="kernel.py", text=text),),
        plan=LaunchPlan(steps=(step,)),
    )  # fmt: skip


def refusal(made: Candidate, architecture: str = "sm_90a") -> Failure:
    language = Triton() if made.language == "triton" else Cutile()
    outcome = language.key(PROBLEM, made, tile_corpus.target(architecture))
    assert isinstance(outcome, Failure)
    return outcome


# ------------------------------------------------------------------ what is refused at once


@pytest.mark.parametrize(
    ("text", "kind", "word", "line"),
    [
        (ADD.replace("import triton\n", "from triton import runtime\n", 1), "import", "'triton.runtime'", 1),
        (ADD + "\nopen('/etc/passwd')\n", "name", "'open'", 10),
        (ADD + "\ntl.core.__dict__\n", "name", "'__dict__'", 10),
        (ADD.replace("i < n)", "i < n", 1), "syntax", "", 8),
        (ADD.replace("@triton.jit", "@triton.autotune(configs=[], key=[])\n@triton.jit"), "source", "autotune", 7),
    ],
)
def test_sources_are_refused_by_line(text: str, kind: str, word: str, line: int) -> None:
    failure = refusal(candidate(text, BLOCK=128))
    assert (failure.stage, failure.kind) == ("build", kind)
    assert word in failure.message
    assert failure.location == f"kernel.py:{line}"


@pytest.mark.parametrize(
    ("made", "message"),
    [
        (candidate(ADD), "step 1 'add': no value for the constant 'BLOCK'"),
        (candidate(ADD, BLOCK=128, BLOK=1), "step 1 'add': unknown option 'BLOK'; known are BLOCK, maxnreg"),
        (candidate(ADD, BLOCK=128, num_warps=3), "option 'num_warps' is 3; it can be 1, 2, 4"),
        (candidate(ADD, n=None, BLOCK=128), "add takes 4 arguments (x, y, out, n), the plan gives 3 (x, y, out)"),
        (candidate(ADD.replace("def add", "def sub"), BLOCK=128), "its @triton.jit functions are: sub"),
        (
            candidate(ADD.replace("n,", "n: tl.float32,"), BLOCK=128),
            "'n' is int32_t in the plan and fp32 in the source",
        ),
    ],
)
def test_plans_are_refused_by_name(made: Candidate, message: str) -> None:
    assert message in refusal(made).message


def test_block_and_architecture_are_not_the_plan_s_to_choose() -> None:
    made = candidate(ADD, BLOCK=128)
    step = made.plan.steps[0]
    blocked = replace(step, launch=Launch(grid=(8, 1, 1), block=(128, 1, 1)))
    assert "the compiler's to choose" in refusal(replace(made, plan=LaunchPlan(steps=(blocked,)))).message
    assert "triton cannot build for 'sm_70'" in refusal(made, "sm_70").message


# -------------------------------------------------------------------------- specialisation


@pytest.mark.parametrize(
    ("n", "kind", "divisible"), [(1000, "i32", False), (1024, "i32", True), (1, "constexpr", False), (0, "i32", True)]
)
def test_numbers_are_specialised_as_triton_does(n: int, kind: str, divisible: bool) -> None:
    made = candidate(ADD, BLOCK=128, n=n)
    (matched,) = triton_language.match(made)
    asked = triton_plan.signature(PROBLEM, made, matched, settings=())
    assert dict(asked.types) == {"x": "*fp32", "y": "*fp32", "out": "*fp32", "n": kind, "BLOCK": "constexpr"}
    assert asked.divisible == ("x", "y", "out", *(("n",) if divisible else ()))
    assert dict(asked.constants).get("n") == (1 if n == 1 else None)


def test_do_not_specialize_is_heeded() -> None:
    text = ADD.replace("@triton.jit", '@triton.jit(do_not_specialize=["n"])')
    made = candidate(text, BLOCK=128, n=1)
    (matched,) = triton_language.match(made)
    asked = triton_plan.signature(PROBLEM, made, matched, settings=())
    assert dict(asked.types)["n"] == "i32"
    assert "n" not in asked.divisible


AXES = (Axis(name="N", size=1024, low=1, high=4096, places=(("x", 0), ("y", 0), ("out", 0))),)


def with_axis(text: str, language: str) -> tuple[Problem, Candidate]:
    """A problem of varying size, and a candidate whose grid and last argument follow it."""
    problem = replace(PROBLEM, axes=AXES)
    made = candidate(text, language=language, problem=problem, n=None, BLOCK=128)
    step = made.plan.steps[0]
    axis = (Binding(kind="axis", name="N", ctype="int32_t"),) if language == "triton" else ()
    launch = Launch(grid=("ceil_div(N, 128)", 1, 1), block=(1, 1, 1))
    step = replace(step, arguments=(*step.arguments, *axis), launch=launch)
    return problem, replace(made, plan=LaunchPlan(steps=(step,)))


def test_axes_stay_arguments(tmp_path: Path) -> None:
    """A size that varies is told to neither compiler, although 16 divides its value of today."""
    problem, made = with_axis(ADD, "triton")
    (matched,) = triton_language.match(made)
    assert "n" not in triton_plan.signature(problem, made, matched, settings=()).divisible
    text = (
        f"{CUTILE}def add(x, y, out, BLOCK: ct.Constant[int]):\n    i = ct.bid(0)\n"
        "    total = ct.load(x, (i,), shape=(BLOCK,)) + ct.load(y, (i,), shape=(BLOCK,))\n"
        "    ct.store(out, (i,), tile=total)\n"
    )
    problem, made = with_axis(text, "cutile")
    artifact = Cutile().compile(problem, made, tile_corpus.target("sm_90a"), tmp_path)
    assert isinstance(artifact, Artifact), artifact
    (step,) = artifact.plan.steps
    assert step.launch is not None
    assert step.launch.grid == ("ceil_div(N, 128)", 1, 1)
    assert [(b.kind, b.name) for b in step.arguments[:2]] == [("tensor", "x"), ("axis", "N")]
    assert step.arguments[2].scalar == 1


# ------------------------------------------------------------------------- tensor descriptors


def test_descriptors_become_tensor_maps_with_tma_and_pointers_without(tmp_path: Path) -> None:
    path = next(path for path in tile_corpus.files("triton") if path.stem == "matmul_descriptors")
    made = {}
    for architecture in ("sm_80", "sm_90a"):
        folder = tmp_path / architecture
        folder.mkdir()
        outcome = Triton().compile(
            tile_corpus.problem(path.stem), tile_corpus.candidate(path), tile_corpus.target(architecture), folder
        )
        assert isinstance(outcome, Artifact), outcome
        made[architecture] = outcome.plan
    assert made["sm_80"].tensor_maps == ()
    first = made["sm_80"].steps[0].arguments[:6]
    assert [(b.kind, b.name, b.scalar) for b in first] == [
        ("tensor", "x", None), ("scalar", "x_map_size", 64), ("scalar", "x_map_size", 64),
        ("scalar", "x_map_stride", 64), ("scalar", "x_map_stride", 1), ("scalar", "x_map_padding", 0),
    ]  # fmt: skip
    x_map = made["sm_90a"].tensor_maps[0]
    assert (x_map.of, x_map.shape, x_map.strides_bytes) == ("x", (64, 64), (128,))
    assert x_map.box[0] * 2 == x_map.swizzle_bytes == 64
    assert made["sm_90a"].steps[0].arguments[0] == Binding(kind="tensor_map", name=x_map.name, ctype="CUtensorMap")


def test_descriptors_of_the_kernel_need_memory_for_every_block(tmp_path: Path) -> None:
    path = next(path for path in tile_corpus.files("triton") if path.stem == "scale_descriptor")
    outcome = Triton().compile(
        tile_corpus.problem(path.stem), tile_corpus.candidate(path), tile_corpus.target("sm_90a"), tmp_path
    )
    assert isinstance(outcome, Artifact), outcome
    (workspace,) = outcome.plan.workspaces
    assert workspace.size_bytes == 4 * 256  # blocks times two descriptors of 128 bytes
    assert outcome.plan.steps[0].arguments[-2] == Binding(kind="workspace", name=workspace.name, ctype="uint8_t")


def test_too_much_shared_memory_is_told_before_a_device_sees_it(tmp_path: Path) -> None:
    path = next(path for path in tile_corpus.files("triton") if path.stem == "matmul")
    text = path.read_text().replace("BM=32 BN=16 BK=16 num_stages=2", "BM=64 BN=64 BK=512 num_stages=4")
    (tmp_path / "matmul.py").write_text(text)
    made = candidate_from_file(tile_corpus.problem("matmul"), tmp_path / "matmul.py")
    (tmp_path / "build").mkdir()
    outcome = Triton().compile(tile_corpus.problem("matmul"), made, tile_corpus.target("sm_80"), tmp_path / "build")
    assert isinstance(outcome, Failure)
    assert outcome.kind == "resources"
    assert "a block can have 166912" in outcome.message


# -------------------------------------------------------------------------------- errors


@pytest.mark.parametrize(
    ("text", "kind", "line", "word"),
    [
        (f"{ADD}\nraise ValueError('no')\n", "import", 10, "ValueError: no"),
        (ADD.replace("tl.arange(0, BLOCK)", "tl.arange(0, BLOCK - 1)"), "syntax", 7, "power of 2"),
        (
            ADD.replace("    i =", "    i = helper(BLOCK)\n    i =").replace(
                "@triton.jit", "@triton.jit\ndef helper(a):\n    return tl.nothing(a)\n\n\n@triton.jit"
            ), "syntax", 7, "nothing",
        ),
    ],
)  # fmt: skip
def test_triton_errors_name_the_author_s_line(text: str, kind: str, line: int, word: str, tmp_path: Path) -> None:
    """Also in a function that the kernel calls."""
    outcome = Triton().compile(PROBLEM, candidate(text, BLOCK=128), tile_corpus.target("sm_90a"), tmp_path)
    assert isinstance(outcome, Failure)
    assert (outcome.kind, outcome.location) == (kind, f"kernel.py:{line}")
    assert word in outcome.message


def test_a_kernel_that_asks_the_time_is_refused_at_its_line(tmp_path: Path) -> None:
    """Through inline assembly or through Triton's own function for it."""
    clock = 'tl.inline_asm_elementwise("mov.u32 $0, %clock;", "=r,r", [i], dtype=tl.int32, is_pure=False, pack=1)'
    text = ADD.replace("    tl.store", f"    i = {clock} % n\n    tl.store")
    outcome = Triton().compile(PROBLEM, candidate(text, BLOCK=128), tile_corpus.target("sm_90a"), tmp_path)
    assert isinstance(outcome, Failure)
    assert (outcome.stage, outcome.kind, outcome.location) == ("inspect", "clock", "kernel.py:8")


def test_a_kernel_that_prints_is_refused(tmp_path: Path) -> None:
    text = ADD.replace("    tl.store", '    tl.device_print("i", i)\n    tl.store')
    outcome = Triton().compile(PROBLEM, candidate(text, BLOCK=128), tile_corpus.target("sm_90a"), tmp_path)
    assert isinstance(outcome, Failure)
    assert (outcome.stage, outcome.kind) == ("inspect", "printf")


def test_a_process_that_ends_early_is_a_failure(tmp_path: Path) -> None:
    text = ADD.replace("import triton\n", "import triton\nimport math\n", 1) + "\ndef f(n): return f(n + 1)\nf(0)\n"
    outcome = Triton().compile(PROBLEM, candidate(text, BLOCK=128), tile_corpus.target("sm_90a"), tmp_path)
    assert isinstance(outcome, Failure)
    assert outcome.kind == "import"
    assert "RecursionError" in outcome.message


# ----------------------------------------------------------------------------------- files


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("grid=ceil_div(1000,128) ", "", "grid= is missing"),
        ("n=1000", "", "parameter 'n' is none of x, y, out"),
        ("BLOCK=128", "BLOCK=128 blok=2", "blok= is no word of a launch of add"),
        ("launch: add", "launch: sub", "sub for a kernel; the file defines add"),
        ("# kernelwright-launch", "# kernelwright-lunch", "has no tile kernel with a launch line"),
    ],
)
def test_files_that_say_no_plan_are_refused(old: str, new: str, message: str, tmp_path: Path) -> None:
    path = next(path for path in tile_corpus.files("triton") if path.stem == "add")
    (tmp_path / "add.py").write_text(path.read_text().replace(old, new))
    with pytest.raises(UserError) as told:
        candidate_from_file(PROBLEM, tmp_path / "add.py")
    assert message in str(told.value)


def test_numbers_in_files_have_the_types_that_they_need(tmp_path: Path) -> None:
    text = tile_corpus.files("triton")[0].read_text().replace("n=1000", "n=int64:1000")
    (tmp_path / "add.py").write_text(text)
    (step,) = candidate_from_file(PROBLEM, tmp_path / "add.py").plan.steps
    assert step.arguments[-1] == Binding(kind="scalar", name="n", ctype="int64_t", scalar=1000)
    assert step.options == (("BLOCK", 128),)


def test_own_files_can_be_imported(tmp_path: Path) -> None:
    (tmp_path / "sizes.py").write_text("BLOCK = 128\n")
    text = ADD.replace(
        "import triton\n", "# kernelwright-launch: add grid=8 n=1000 BLOCK=128\nimport triton\nimport sizes\n", 1
    )
    (tmp_path / "add.py").write_text(text + "\nassert sizes.BLOCK == 128\n")
    made = candidate_from_file(PROBLEM, tmp_path / "add.py")
    assert [source.path for source in made.sources] == ["add.py", "sizes.py"]
    (tmp_path / "build").mkdir()
    outcome = Triton().compile(PROBLEM, made, tile_corpus.target("sm_90a"), tmp_path / "build")
    assert isinstance(outcome, Artifact), outcome


def test_cute_says_how_it_is_installed() -> None:
    with pytest.raises(MissingTool, match=r'pip install "nvidia-cutlass-dsl'):
        table.load("cute").key(PROBLEM, candidate(ADD, BLOCK=128), tile_corpus.target("sm_90a"))


# ------------------------------------------------------------------------------------- PTX


def test_modules_are_merged_under_new_names() -> None:
    module = (
        ".version 8.7\n.target sm_90a\n.address_size 64\n.extern .shared .align 16 .b8 global_smem[];\n"
        ".global .align 1 .b8 text[3] = {97};\n.visible .entry add(\n\t.param .u64 add_param_0\n)\n"
        "{\n\t.loc\t1 5 0\n\tld.param.u64 %rd1, [add_param_0];\n\tmov.u64 %rd2, text;\n\tret;\n}\n"
        '\t.file\t1 "" "kernel.py"\n'
    )
    merged = ptx.merge((("add", module), ("add_2", module.replace(".align 16", ".align 128"))))
    assert merged.count(".version 8.7") == merged.count(".target sm_90a") == 1
    assert merged.count(".extern .shared .align 128 .b8 global_smem[];") == merged.count(".extern") == 1
    assert ".entry add(" in merged
    assert "[add_2_param_0]" in merged
    assert "mov.u64 %rd2, text_0;" in merged
    assert "mov.u64 %rd2, text_1;" in merged
    assert '.file\t2 "" "kernel.py"' in merged
    assert ".loc\t2 5 0" in merged


def test_kernels_are_read_from_the_source() -> None:
    text = f"{TRITON}def add(x, n: 'i32', A: tl.constexpr, B: tl.constexpr = 4, C: 'tl.constexpr' = None):\n    pass\n"
    source = SourceFile(path="kernel.py", text=text)
    (kernel,) = python_source.kernels(source, decorator="jit", constant="constexpr")
    assert [(p.name, p.constant, p.default) for p in kernel.parameters] == [
        ("x", False, None), ("n", False, None), ("A", True, None), ("B", True, 4), ("C", True, None),
    ]  # fmt: skip
    assert kernel.location == "kernel.py:6"
