"""Attention in Triton: tiles of queries against tiles of keys, with an online softmax.

Where the softmax itself is wanted, the tiles are gone through twice, or a whole row is one tile. float32 is multiplied
as three TF32 products, or exactly (`ieee`). Not here: which graphs are attention (experts/attention.py).
"""

from __future__ import annotations

from kernelwright.experts.attention_code import Attention
from kernelwright.experts.chain import Unsupported
from kernelwright.experts.gpu.attention_cuda import inputs, looked_at, stride
from kernelwright.experts.gpu.chain_printer import TileLines, tile_offset
from kernelwright.experts.gpu.printer import BINDINGS
from kernelwright.experts.gpu.tile_candidate import NO_BLOCK, sealed
from kernelwright.experts.gpu.triton_dialect import HEADER
from kernelwright.experts.kernel import pointer, space
from kernelwright.experts.views import View
from kernelwright.types import (
    Binding,
    Candidate,
    Failure,
    Launch,
    OptionValue,
    Point,
    Problem,
    Space,
    Step,
    TensorSpec,
    Workspace,
)

LOOKERS = 256
"""Programs that look for infinities and NaN; a power of two."""
LOOKED_AT_ONCE = 2048
MOST_ELEMENTS = 1 << 13
"""Of a tile of scores, which lies in registers."""
LONGEST_TILE = 1024


def space_of(work: Attention, dtype: str) -> Space:
    """Returns the schedules: queries and keys of a tile, warps, stages, how float32 is multiplied."""
    row = power(work.keys)
    keys = [n for n in (64, 128, 32, 256, 16) if n < 2 * work.keys] or [16]
    rows = tuple(n for n in (64, 128, 32, 16) if n < 2 * work.queries) or (16,)
    if work.weights_out is not None and keys[0] < row <= LONGEST_TILE:
        keys.append(row)  # a row as one tile: scores are computed once
    products = ("tf32x3", "ieee") if dtype == "float32" else ("halves",)
    return space(
        rows=rows, keys=tuple(dict.fromkeys(keys)), warps=(4, 8, 2), stages=(2, 3, 1, 4), product=products,
        math=("exact", "fast") if dtype == "float32" else ("fast", "exact"),
    )  # fmt: skip


def power(count: int) -> int:
    """Returns the power of two that is at least `count` and 16."""
    return max(16, 1 << (count - 1).bit_length())


def emit(problem: Problem, work: Attention, dtype: str, point: Point) -> Candidate | Failure:
    """Returns the candidate of one schedule."""
    choice: dict[str, OptionValue] = dict(point)
    if int(choice["rows"]) * int(choice["keys"]) > MOST_ELEMENTS:
        message = f"a tile of {choice['rows']} by {choice['keys']} scores"
        return Failure(stage="emit", kind="tile", message=message)
    looked = looked_at(problem, work)
    tensors = (*inputs(problem, work), *work.outs)
    names = [pointer(spec.name) for spec in tensors] + (["strange"] if looked else [])
    writer = Writer(work, choice, dtype, looks=bool(looked))
    try:
        body = writer.body()
    except Unsupported as reason:
        return Failure(stage="emit", kind="unsupported", message=str(reason))
    text = [f"# {dict(point)}\n{HEADER}"]
    options = (("num_stages", choice["stages"]), ("num_warps", choice["warps"]))
    flags = Binding(kind="workspace", name="strange", ctype="int32_t")
    steps = []
    if looked:
        text.append("\n".join(["", *look(looked), ""]))
        bound = (*map(bound_to, looked), flags)
        launch = Launch(grid=(LOOKERS, 1, 1), block=NO_BLOCK)
        steps.append(Step(symbol="kw_look", arguments=bound, launch=launch, options=(("num_warps", 4),)))
    text.append("\n".join(["", "@triton.jit", f"def kw_attention({', '.join(names)}):", *body, ""]))
    grid = (-(-work.queries // int(choice["rows"])), work.heads, 1)
    bound = (*map(bound_to, tensors), *((flags,) if looked else ()))
    launch = Launch(grid=grid, block=NO_BLOCK)
    steps.append(Step(symbol="kw_attention", arguments=bound, launch=launch, options=options))
    held = (Workspace(name="strange", size_bytes=4 * LOOKERS),) if looked else ()
    return sealed(
        problem, language="triton", template="triton-attention", point=point, text="\n".join(text),
        steps=tuple(steps), workspaces=held,
    )  # fmt: skip


def bound_to(spec: TensorSpec) -> Binding:
    """Returns the argument that is a tensor."""
    return Binding(kind="tensor", name=spec.name, ctype=BINDINGS[spec.dtype])


def look(tensors: tuple[TensorSpec, ...]) -> list[str]:
    """Returns the kernel that leaves a flag for each of its programs: whether it saw an infinity or NaN."""
    lines = ["@triton.jit", f"def kw_look({', '.join(pointer(s.name) for s in tensors)}, strange):"]
    lines += ["    program = tl.program_id(0).to(tl.int64)", f"    lane = tl.arange(0, {LOOKED_AT_ONCE})"]
    lines.append(f"    found = tl.zeros(({LOOKED_AT_ONCE},), tl.int32)")
    for spec in tensors:
        count = 1
        for n in spec.shape:
            count *= n
        turns = -(-count // (LOOKERS * LOOKED_AT_ONCE))
        lines += [
            f"    for turn in range({turns}):",
            f"        place = (turn * {LOOKERS} + program) * {LOOKED_AT_ONCE} + lane",
            f"        x = tl.load({pointer(spec.name)} + place, mask=place < {count}, other=0).to(tl.float32)",
            '        found |= (tl.abs(x) < float("inf")) == 0',
        ]
    return [*lines, "    tl.store(strange + program, tl.max(found, 0))"]


class Writer:
    """Prints the kernel for one schedule."""

    def __init__(self, work: Attention, choice: dict[str, OptionValue], dtype: str, *, looks: bool) -> None:
        self.work, self.looks = work, looks
        self.rows, self.keys = int(choice["rows"]), int(choice["keys"])
        self.exp = "tl.exp" if choice["math"] == "fast" else "libdevice.exp"
        precision = choice["product"] if dtype == "float32" else "ieee"
        self.dot = f'tl.dot({{}}, {{}}, input_precision="{precision}")'
        self.tiles = -(-work.keys // self.keys)
        self.deep, self.wide = power(work.depth), power(max(work.width, 1))
        self.scores = self.score_lines()

    def score_lines(self) -> list[str]:
        """Returns the statements that make `s`, a tile of scores with -inf behind the last key, from tile `tile`."""
        w = self.work
        place = tile_offset(w.k.offset(("head", "", "c")))
        lines = [f"c = tile * {self.keys} + tl.arange(0, {self.keys})[None, :]"]
        lines.append(
            f"k = tl.load({pointer(w.k.base)} + (({place}) + c * 0 + down * {stride(w.k, 1)}), "
            f"mask=(down < {w.depth}) & (c < {w.keys}), other=0)"
        )
        lines.append(f"core = {self.dot.format('q', 'k')} * {w.scale!r}")
        writer = TileLines(("head", "r", "c"), ("", f"(r < {w.queries})", f"(c < {w.keys})"), held={w.core: "core"})
        result = writer.write(w.score)
        return [*lines, *writer.lines, f's = tl.where(c < {w.keys}, {result}, float("-inf"))']

    def body(self) -> list[str]:
        """Returns the kernel's lines."""
        w = self.work
        lines = [
            "head = tl.program_id(1).to(tl.int64)",
            "block = tl.num_programs(0) - 1 - tl.program_id(0)",
            f"r = block * {self.rows} + tl.arange(0, {self.rows})[:, None]",
            f"across = tl.arange(0, {self.deep})[None, :]",
            f"down = tl.arange(0, {self.deep})[:, None]",
            f"q = tl.load({pointer(w.q.base)} + (({tile_offset(w.q.offset(('head', 'r', '')))}) + r * 0 "
            f"+ across * {stride(w.q, 2)}), mask=(r < {w.queries}) & (across < {w.depth}), other=0)",
            f'top = tl.full(({self.rows}, 1), float("-inf"), tl.float32)',
            f"total = tl.zeros(({self.rows}, 1), tl.float32)",
        ]
        if w.v is not None:
            lines.append(f"o = tl.zeros(({self.rows}, {self.wide}), tl.float32)")
            lines.append(f"e = tl.arange(0, {self.wide})[None, :]")
        lines += self.end_lines()
        if self.tiles == 1:
            lines += ["tile = 0", *self.scores, *self.advance()]
        else:
            online = [] if w.weights_out is not None else self.weigh(rescales=True)
            lines += ["for tile in range(0, end):", *inner([*self.scores, *self.advance(), *online])]
        share = 'less = tl.where(top == float("-inf"), 0.0, top)', "share = 1.0 / total"
        lines += share
        if w.guarded:
            lines.append("share = tl.where(total == 0.0, 0.0, share)")
        lines += self.second()
        if w.values_out is not None:
            scaled = "o * share" if w.weights_out is None and self.tiles > 1 else "o"
            lines.append(self.store(w.values_out, "e", scaled, w.width))
        return inner(lines)

    def end_lines(self) -> list[str]:
        """Returns the statements that find the first tile that the horizon hides from all queries."""
        w = self.work
        if w.horizon is None:
            return [f"end = {self.tiles}"]
        last = f"(block + 1) * {self.rows} - 1 + {w.horizon}"
        found = f"tl.minimum((tl.maximum({last}, 0) + {self.keys - 1}) // {self.keys}, {self.tiles})"
        if not self.looks:
            return [f"end = {found}"]
        seen = f"tl.max(tl.load(strange + tl.arange(0, {LOOKERS})), 0)"
        return [f"end = tl.where({seen} != 0, {self.tiles}, {found})"]

    def advance(self) -> list[str]:
        """Returns the statements that turn scores into exponentials less the running maximum."""
        return [
            "new = tl.maximum(top, tl.max(s, axis=1, keep_dims=True))",
            'less = tl.where(new == float("-inf"), 0.0, new)',
            f"old = {self.exp}(top - less)",
            f"p = {self.exp}(s - less)",
            "total = total * old + tl.sum(p, axis=1, keep_dims=True)",
            "top = new",
        ]

    def weigh(self, *, rescales: bool) -> list[str]:
        """Returns the statements that add a tile's part of the second product."""
        w = self.work
        assert w.v is not None
        place = tile_offset(w.v.offset(("head", "rows_of_v", "")))
        lines = [
            f"rows_of_v = tile * {self.keys} + tl.arange(0, {self.keys})[:, None]",
            f"v = tl.load({pointer(w.v.base)} + (({place}) + rows_of_v * 0 + e), "
            f"mask=(rows_of_v < {w.keys}) & (e < {w.width}), other=0)",
        ]
        product = self.dot.format("p.to(v.dtype)", "v")
        return [*lines, f"o = {'o * old' if rescales else 'o'} + {product}"]

    def second(self) -> list[str]:
        """Returns the statements after the sums are known: weights, and values where they were not added up yet."""
        w = self.work
        values = self.weigh(rescales=False) if w.v is not None else []
        weights = [] if w.weights_out is None else [self.store(w.weights_out, "c", "p", w.keys)]
        if self.tiles == 1:
            return ["p = p * share", *weights, *values]
        if not weights:
            return []
        again = [*self.scores, f"p = {self.exp}(s - less) * share", *weights, *values]
        lines = ["for tile in range(0, end):", *inner(again)]
        if w.horizon is not None:
            nothing = self.store(w.weights_out, "c", f"share * 0.0 + tl.zeros((1, {self.keys}), tl.float32)", w.keys)
            hidden = [f"c = tile * {self.keys} + tl.arange(0, {self.keys})[None, :]", nothing]
            lines += [f"for tile in range(end, {self.tiles}):", *inner(hidden)]
        return lines

    def store(self, out: View | None, column: str, result: str, count: int) -> str:
        """Returns the statement that stores a tile of results."""
        assert out is not None
        place = tile_offset(out.offset(("head", "r", column)))
        mask = f"(r < {self.work.queries}) & ({column} < {count})"
        return f"tl.store({pointer(out.base)} + (({place}) + r * 0 + {column} * 0), {result}, mask={mask})"


def inner(lines: list[str]) -> list[str]:
    """Returns lines one level deeper."""
    return ["    " + line for line in lines]
