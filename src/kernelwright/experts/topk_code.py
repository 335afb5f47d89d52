"""C++ around the selection of a row's k best: the scores before it, what is made of the results, the outputs.

Not here: the selection itself (selection.py) and which graphs are read (topk.py).
"""

from __future__ import annotations

from kernelwright.experts.chain import Expression, Leaf, Lines
from kernelwright.experts.kernel import indented, pointer
from kernelwright.types import TensorSpec, value


@value
class Made:
    """Something that each row's k results are turned into, before the outputs."""

    name: str
    kind: str
    """gather, softmax or sum."""
    of: Expression | None = None
    """What it is made of, over (rows, k); gathers have a table instead."""
    table: TensorSpec | None = None


@value
class Output:
    """One output: an expression over (rows, k), the indices, or rows of a table."""

    out: TensorSpec
    expression: Expression | None = None
    table: TensorSpec | None = None
    width: int = 0
    """Elements of a row of the table."""
    height: int = 0
    """Rows of the part of the table that belongs to one row of scores; 0: all use the whole table."""


@value
class Selection:
    """One top-k with its prologue and all that follows."""

    core: str
    scores: Expression
    """Over (rows, length), or (rows, length, inner)."""
    inner: int
    """The largest of this many numbers is a score; 0: the numbers are the scores."""
    softmax: bool
    """Whether the softmax of the scores is what is searched."""
    rows: int
    length: int
    count: int
    largest: bool
    made: tuple[Made, ...]
    outputs: tuple[Output, ...]


def direct_scores(work: Selection) -> str:
    """Returns the pointer to the scores where they lie in memory as they are searched, else ""."""
    item = work.scores
    return (
        pointer(item.view.base)
        if isinstance(item, Leaf) and item.view.contiguous and not work.softmax and not work.inner
        else ""
    )


def expressions(work: Selection) -> tuple[Expression, ...]:
    """Returns everything that is computed pointwise, in the order of the code."""
    found = [work.scores, *(made.of for made in work.made if made.of is not None)]
    return (*found, *(output.expression for output in work.outputs if output.expression is not None))


def row_loop(work: Selection, lanes: int, threads: int, rows: int) -> str:
    """Returns the kernel's statements for one row: scores, selection, what is made of it, outputs."""
    lines: list[str] = []
    direct = direct_scores(work)
    if direct:
        lines.append(f"const float* scores = {direct} + r * LENGTH;")
    else:
        lines += _prologue(work, lanes)
    lines += [
        "alignas(64) float values[PADDED] = {};",
        "int64_t indices[COUNT];",
        "select_row(scores, values, indices);",
    ]
    held = {work.core: "kw::load<float, LANES>(values + j)"}
    for made in work.made:
        lines += _make(made, lanes, held)
    for output in work.outputs:
        lines += _write(output, lanes, held)
    return (
        f"#pragma omp parallel for num_threads({threads}) schedule(dynamic, {rows})\n"
        f"    for (int64_t r = 0; r < ROWS; ++r) {{\n{indented(lines, 2)}\n    }}"
    )


def _prologue(work: Selection, lanes: int) -> list[str]:
    """Returns the statements that compute one row of scores."""
    if work.inner:
        return _maxima(work, lanes)
    writer = Lines(("r", "j"), width=lanes, count="left", held={})
    result = writer.write(work.scores)
    lines = ["alignas(64) float scores[(LENGTH + LANES - 1) / LANES * LANES];"]
    lines += ["V top = kw::broadcast<V>(-__builtin_inff());"] if work.softmax else []
    lines += ["for (int j = 0; j < LENGTH; j += LANES) {", "    const int left = LENGTH - j;"]
    lines += ["    " + line for line in writer.lines]
    lines.append(f"    const V score = {result};")
    if work.softmax:
        lines.append(
            "    top = kw::maximum(top, left >= LANES ? score : kw::select(kw::first<LANES>(left), score, top));"
        )
    lines += ["    kw::store(scores + j, score);", "}"]
    if work.softmax:
        lines.append("softmax_row(scores, LENGTH, kw::largest(top));")
    return lines


def _maxima(work: Selection, lanes: int) -> list[str]:
    """Returns the statements that make each score the largest of `inner` numbers."""
    writer = Lines(("r", "j", "c"), width=lanes, count="" if work.inner % lanes == 0 else "left", held={})
    result = writer.write(work.scores)
    if writer.count:
        result = f"left >= LANES ? {result} : kw::select(kw::first<LANES>(left), {result}, top)"
    left = [f"        const int left = {work.inner} - c;"] if writer.count else []
    return [
        "alignas(64) float scores[(LENGTH + LANES - 1) / LANES * LANES];",
        "for (int j = 0; j < LENGTH; ++j) {",
        "    V top = kw::broadcast<V>(-__builtin_inff());",
        f"    for (int c = 0; c < {work.inner}; c += LANES) {{",
        *left,
        *("        " + line for line in writer.lines),
        f"        top = kw::maximum(top, {result});",
        "    }",
        "    scores[j] = kw::largest(top);",
        "}",
    ]


def _make(made: Made, lanes: int, held: dict[str, str]) -> list[str]:
    """Returns the statements that make one thing of a row's results, and notes how it is read."""
    name = f"made_{made.name}"
    if made.of is None:
        assert made.table is not None
        held[made.name] = f"kw::load<float, LANES>({name} + j)"
        return [
            f"alignas(64) float {name}[PADDED] = {{}};",
            f"const float* {name}_from = {pointer(made.table.name)} + r * {made.table.shape[-1]};",
            f"for (int j = 0; j < COUNT; ++j) {name}[j] = {name}_from[indices[j]];",
        ]
    writer = Lines(("r", "j"), width=lanes, count="(COUNT - j)", held=held)
    result = writer.write(made.of)
    lines = [
        f"alignas(64) float {name}[PADDED];",
        "for (int j = 0; j < COUNT; j += LANES) {",
        *("    " + line for line in writer.lines),
        f"    kw::store({name} + j, {result});",
        "}",
    ]
    if made.kind == "sum":
        held[made.name] = f"kw::broadcast<V>({name}_sum)"
        return [*lines, f"float {name}_sum = 0.0f;", f"for (int j = 0; j < COUNT; ++j) {name}_sum += {name}[j];"]
    held[made.name] = f"kw::load<float, LANES>({name} + j)"
    return [*lines, f"softmax_row({name}, COUNT, row_top({name}, COUNT));"]


def _write(output: Output, lanes: int, held: dict[str, str]) -> list[str]:
    """Returns the statements that write one output of a row."""
    to = f"{pointer(output.out.name)} + r * COUNT"
    if output.table is not None:
        width = output.width
        own = f" + r * {output.height * width}" if output.height else ""
        table, rows = pointer(output.table.name), f"{pointer(output.out.name)} + (r * COUNT + j) * {width}"
        return [
            "for (int j = 0; j < COUNT; ++j)",
            f"    __builtin_memcpy({rows}, {table}{own} + indices[j] * {width}, {width} * sizeof(*{table}));",
        ]
    if output.expression is None:
        return [f"__builtin_memcpy({to}, indices, sizeof(indices));"]
    writer = Lines(("r", "j"), width=lanes, count="(COUNT - j)", held=held)
    result = writer.write(output.expression)
    return [
        "for (int j = 0; j < COUNT; j += LANES) {",
        *("    " + line for line in writer.lines),
        f"    kw::store_part({to} + j, {result}, COUNT - j);",
        "}",
    ]
