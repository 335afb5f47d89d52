"""CUDA C++ of one loop nest: from lowered loops and a point of the schedule space to a kernel.

Three shapes. *flat*: no fold, each thread computes a few neighbouring elements. *rows*: the innermost axis is reduced
(or scanned), a group of threads shares a row. *columns*: the innermost axis is kept, each thread holds a few columns,
and the threads of one column share what is reduced. In all of them a thread's elements are neighbours, so that they are
loaded and stored as one vector. Not here: expressions (printer.py), what is launched (cuda.py).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import prod

from kernelwright.experts import tensors as t
from kernelwright.experts.emit import fold_references
from kernelwright.experts.expression import Expression
from kernelwright.experts.frame import Loops, Segment, Write, levels_of, pass_of
from kernelwright.experts.gpu.printer import BUFFERS, CTYPES, Printer, buffer_name, fits_width, stored
from kernelwright.experts.index import Affine, Variable
from kernelwright.experts.print import Scope
from kernelwright.experts.reuse import Kept, kept_values

JOINS = {
    "sum": "Sum", "product": "Product", "max": "Max", "min": "Min", "max_of_exp": "MaxOfExp", "argmax": "ArgMax",
    "argmin": "ArgMin", "any": "Any", "all": "All",
}  # fmt: skip
REGISTERS, MOST_REGISTERS = 65536, 255
"""Of a multiprocessor, and of one thread at most."""
OTHER_REGISTERS = 20
"""That a thread needs beside the values of a row that it keeps between passes."""
MOST_KEPT_KINDS = 4


@dataclass(frozen=True)
class Settings:
    """One point of the schedule space."""

    threads: int
    vector_bytes: int
    unroll: int
    group: int
    """Threads that share a row; 0 leaves it to the length of the row."""
    keep: bool
    """Whether rows stay in registers between passes."""
    fast: bool = False
    """Whether exponentials and logarithms are the hardware's approximations."""


@dataclass(frozen=True)
class Geometry:
    """How a kernel is started."""

    blocks: int
    threads: int


@dataclass
class Writer:
    """Prints one loop nest as one kernel."""

    loops: Loops
    settings: Settings
    index: str = "int"
    lines: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        variables, reduced = self.loops.variables, self.loops.reduced
        self.lane = variables[-1]
        self.levels = levels_of(self.loops.segments[0].folds)
        self.folds = [f for f in self.levels if isinstance(f, t.Fold)]
        self.scans = [f for f in self.levels if isinstance(f, t.Scan)]
        self.flat = not self.folds and not self.scans
        self.rows = not self.flat and self.lane in reduced
        self.outer = [v for v in variables if v not in reduced and v is not self.lane]
        self.inner = [v for v in variables if v in reduced and v is not self.lane]
        self.width = width_of(self.loops, self.settings.vector_bytes)
        chunks = max(s.variables[-1].extent for s in self.loops.segments) // self.width
        self.group, self.across = self.shape(chunks)
        self.keeps: list[Kept] = self.chosen_keeps()

    def shape(self, chunks: int) -> tuple[int, int]:
        """Returns the threads that share a row, and how many rows (or columns of threads) a block has."""
        threads = self.settings.threads
        if self.flat:
            return 1, threads
        if self.rows:
            work = chunks * prod(v.extent for v in self.inner)
            group = self.settings.group or power_at_least(-(-work // 4), 1, threads)
            group = min(group, power_at_least(work, 1, threads), threads)
            return (group, threads // group) if group <= 32 else (group, 1)
        across = power_at_least(chunks, 1, 32 if not self.scans else threads)
        length = prod(v.extent for v in self.inner)
        group = 1 if self.scans else min(power_at_least(-(-length // 4), 1, threads), max(1, threads // across))
        return group, across

    @property
    def threads(self) -> int:
        """Threads of a block."""
        return self.group * self.across

    def chosen_keeps(self) -> list[Kept]:
        """Returns the values that stay in registers from one pass to the next."""
        if not (self.rows and self.settings.keep and len(self.loops.segments) == 1) or self.scans:
            return []
        each = self.steps(self.loops.segments[0]) * self.width
        room = min(MOST_REGISTERS, REGISTERS // self.threads) - OTHER_REGISTERS
        limit = min(room // max(1, each), MOST_KEPT_KINDS)
        return kept_values(self.loops, self.levels, "registers", limit=limit)

    def steps(self, segment: Segment) -> int:
        """Returns how many chunks a thread does of a row in one pass."""
        return -(-self.chunks(segment) // self.group)

    def is_exact(self, segment: Segment) -> bool:
        """Tells whether every thread has the same number of chunks."""
        return self.steps(segment) * self.group == self.chunks(segment)

    def chunks(self, segment: Segment) -> int:
        """Returns the chunks of one row, reduced outer axes included."""
        return segment.variables[-1].extent // self.width * prod(v.extent for v in self.inner)

    # ------------------------------------------------------------------------- the kernel

    def body(self) -> tuple[list[str], Geometry]:
        """Returns the lines between the kernel's braces, and its geometry."""
        rows = prod(v.extent for v in self.outer)
        if self.flat:
            return self.flat_body(rows)
        scope = Scope(frozenset(self.outer), 1)
        if self.rows:
            blocks = -(-rows // self.across)
            scope.lines += self.row_opening(rows)
        else:
            pieces = -(-(self.lane.extent // self.width) // self.across)
            blocks = rows * pieces
            scope.lines += self.column_opening(pieces)
        printer = Printer(self.lane, "base", self.width, self.index, [scope])
        writes = [w for segment in self.loops.segments for w in segment.writes]
        last = max([*self.levels.values(), *(pass_of(w.value, self.levels) for w in writes)], default=0)
        for k in self.keeps:
            scope.add(f"float k{k.number}[{self.steps(k.segment) * self.width}];")
        for number in range(last + 1):
            self.one_pass(scope, printer, number)
            self.row_writes(scope, printer, number)
        return scope.lines, Geometry(blocks, self.threads)

    def flat_body(self, rows: int) -> tuple[list[str], Geometry]:
        """Returns a kernel without folds: a thread for each vector of the output, or for a few."""
        lines: list[str] = []
        most = 1
        for number, segment in enumerate(self.loops.segments):
            lane = segment.variables[-1]
            chunks = lane.extent // self.width
            unroll = self.settings.unroll if rows * chunks >= self.settings.threads * self.settings.unroll else 1
            total = rows * chunks
            blocks = -(-total // (self.threads * unroll))
            most = max(most, blocks)
            outer = Scope(frozenset(self.outer), 3)
            lines += [f"    {{  // part {number}"] if len(self.loops.segments) > 1 else ["    {"]
            start = f"{self.index}(blockIdx.x) * {self.threads * unroll} + threadIdx.x"
            if unroll > 1:
                lines.append("    #pragma unroll")
            lines.append(f"    for (int s = 0; s < {unroll}; ++s) {{")
            lines.append(f"        const {self.index} q = {start} + s * {self.threads};")
            lines.append(f"        if (q < {total}) {{")
            outer.lines += unpack(self.outer, f"q / {chunks}" if self.outer else "0", "            ", self.index)
            low = f" + {lane.low}" if lane.low else ""
            outer.add(f"const {self.index} base = q % {chunks} * {self.width}{low};")
            printer = Printer(lane, "base", self.width, self.index, [outer])
            self.elements(outer, printer, segment, [], [], segment.writes, keeps=[])
            lines += [*outer.lines, "        }", "    }", "    }"]
        return lines, Geometry(most, self.threads)

    def row_opening(self, rows: int) -> list[str]:
        """Returns the lines that find a group's row; a row beyond the last is the last one, and not written."""
        lines = [f"    const int me = threadIdx.x % {self.group};"]
        exact = rows % self.across == 0
        number = f"blockIdx.x * {self.across} + threadIdx.x / {self.group}" if self.across > 1 else "blockIdx.x"
        if exact:
            lines += [f"    const {self.index} row = {number};", "    constexpr bool live = true;"]
        else:
            lines += [
                f"    const {self.index} wanted = {number};",
                f"    const bool live = wanted < {rows};",
                f"    const {self.index} row = live ? wanted : {rows - 1};",
            ]
        return lines + unpack(self.outer, "row", "    ", self.index)

    def column_opening(self, pieces: int) -> list[str]:
        """Returns the lines that find a thread's columns and its share of what is reduced."""
        chunks = self.lane.extent // self.width
        exact = chunks % self.across == 0
        lines = [
            f"    const int me = threadIdx.x / {self.across};",
            f"    const {self.index} piece = blockIdx.x % {pieces};",
            f"    const {self.index} wanted = piece * {self.across} + threadIdx.x % {self.across};",
            "    constexpr bool live = true;" if exact else f"    const bool live = wanted < {chunks};",
        ]
        low = f" + {self.lane.low}" if self.lane.low else ""
        column = "wanted" if exact else f"(live ? wanted : {chunks - 1})"
        lines.append(f"    const {self.index} base = {column} * {self.width}{low};")
        return lines + unpack(self.outer, f"(blockIdx.x / {pieces})", "    ", self.index)

    # ------------------------------------------------------------------------- passes

    def one_pass(self, scope: Scope, printer: Printer, number: int) -> None:
        """Adds one pass over a row or column: accumulators, the loops, the results."""
        folds = [f for f in self.folds if self.levels[f] == number]
        scans = [s for s in self.scans if self.levels[s] == number]
        plan = [self.element_writes(segment, number) for segment in self.loops.segments]
        if not folds and not scans and not any(plan):
            return
        for f in folds:
            self.declare(scope, f)
        for s in scans:
            start, kind = "0" if s.kind == "sum" else "1", self.scan_type(s)
            many = "" if self.rows else f"[{self.width}]"
            scope.add(f"{kind} c{self.scans.index(s)}{many}{f' = {start}' if self.rows else ''};")
            if not self.rows:
                scope.add(f"for (int v = 0; v < {self.width}; ++v) c{self.scans.index(s)}[v] = {start};")
        for segment, writes in zip(self.loops.segments, plan, strict=True):
            self.sweep(scope, printer, segment, folds, scans, writes, number)
        for f in folds:
            self.join(scope, f)

    def sweep(
        self,
        scope: Scope,
        printer: Printer,
        segment: Segment,
        folds: list[t.Fold],
        scans: list[t.Scan],
        writes: list[Write],
        number: int,
    ) -> None:
        """Adds a thread's loop over its chunks of a row, or over its share of a column."""
        lane = segment.variables[-1]
        printer.lane = lane
        body = Scope(frozenset({*self.outer, *self.inner}), scope.depth + 1)
        if self.rows:
            count, chunks = self.chunks(segment), lane.extent // self.width
            low = f" + {lane.low}" if lane.low else ""
            body.lines += unpack(self.inner, f"q / {chunks}", "    " * body.depth, self.index)
            body.add(f"const {self.index} base = {'q' if not self.inner else f'q % {chunks}'} * {self.width}{low};")
        else:
            count = prod(v.extent for v in self.inner)
            body.lines += unpack(self.inner, "q", "    " * body.depth, self.index)
        steps = -(-count // self.group)
        keeps = [k for k in self.keeps if k.segment is segment]
        printer.scopes = [scope, body]
        self.elements(body, printer, segment, folds, scans, writes, keeps=keeps, number=number)
        printer.scopes = [scope]
        unroll = steps if keeps else min(self.settings.unroll, steps)
        scope.add(f"#pragma unroll {max(1, unroll)}")
        scope.add(f"for (int s = 0; s < {steps}; ++s) {{")
        scope.add(f"    const {self.index} q = s * {self.group} + me;")
        if steps * self.group == count:
            scope.lines += body.lines
        elif scans and self.rows:
            # Every thread of the group takes part in a scan; those beyond the row bring nothing in.
            scope.lines[-1] = scope.lines[-1].replace(" q = ", " wanted = ")
            scope.add(f"    const bool here = wanted < {count};")
            scope.add(f"    const {self.index} q = here ? wanted : 0;")
            scope.lines += body.lines
        else:
            scope.add(f"    if (q < {count}) {{")
            scope.lines += body.lines
            scope.add("    }")
        scope.add("}")

    def elements(
        self,
        chunk: Scope,
        printer: Printer,
        segment: Segment,
        folds: list[t.Fold],
        scans: list[t.Scan],
        writes: list[Write],
        *,
        keeps: list[Kept],
        number: int = 0,
    ) -> None:
        """Adds the loop over a thread's neighbouring elements, with what is loaded before and stored after it."""
        lane = segment.variables[-1]
        each = Scope(chunk.bound | {lane}, chunk.depth + 1)
        printer.chunk, printer.vectors = chunk, {}
        printer.scopes = [*printer.scopes, each] if printer.scopes[-1] is chunk else [*printer.scopes, chunk, each]
        each.add(f"const {self.index} {lane.name} = base + v;")
        for k in keeps:
            if k.first < number:
                each.names[k.value] = f"k{k.number}[s * {self.width} + v]"
        after: list[str] = []
        for k in keeps:
            if k.first == number:
                each.add(f"k{k.number}[s * {self.width} + v] = {printer.text(k.value)};")
        for f in folds:
            self.step(each, printer, f, segment)
        for s in scans:
            self.scan_step(chunk, each, printer, s, segment)
        for w in writes:
            self.write(chunk, each, after, printer, w)
        printer.scopes = printer.scopes[:-1]
        loop = [f"#pragma unroll {self.width}", f"for (int v = 0; v < {self.width}; ++v) {{"]
        chunk.lines += ["    " * chunk.depth + line for line in loop]
        chunk.lines += [*each.lines, "    " * chunk.depth + "}"]
        chunk.lines += ["    " * chunk.depth + line for line in after]

    def write(self, chunk: Scope, each: Scope, after: list[str], printer: Printer, w: Write) -> None:
        """Adds the lines that write one element, or collect a vector that is written after the loop."""
        value = stored(w.target.dtype, printer.text(w.value))
        name = buffer_name(w.target.name)
        live = "" if self.flat else "if (live) "
        if self.scans and self.rows and not self.is_exact(self.loops.segments[0]):
            live = "if (live && here) "
        side_by_side = w.place.coefficient(printer.lane) == 1 and fits_width(w.place, printer.lane, self.width)
        if self.width == 1 or not side_by_side:
            each.add(f"{live}{name}[{printer.place(w.place)}] = {value};")
            return
        printer.counter += 1
        y = f"y{printer.counter}"
        chunk.add(f"kw::vec<{BUFFERS[w.target.dtype]}, {self.width}> {y};")
        each.add(f"{y}[v] = {value};")
        after.append(f"{live}kw::store<{self.width}>({name} + {printer.place(w.place, at_base=True)}, {y});")

    def element_writes(self, segment: Segment, number: int) -> list[Write]:
        """Returns the writes of one pass that happen for each element."""
        return [w for w in segment.writes if not w.of_row and pass_of(w.value, self.levels) == number]

    def row_writes(self, scope: Scope, printer: Printer, number: int) -> None:
        """Adds the writes of values that are complete once a pass is over."""
        segment = self.loops.segments[0]
        for w in segment.writes:
            if not w.of_row or max(pass_of(w.value, self.levels) - 1, 0) != number:
                continue
            if self.rows:
                printer.scopes = [scope]
                value = stored(w.target.dtype, printer.text(w.value))
                scope.add(f"if (me == 0 && live) {buffer_name(w.target.name)}[{printer.place(w.place)}] = {value};")
                continue
            chunk = Scope(frozenset(self.outer), scope.depth + 1)
            printer.scopes, printer.lane = [scope], segment.variables[-1]
            self.elements(chunk, printer, segment, [], [], [w], keeps=[])
            printer.scopes = [scope]
            scope.add("if (me == 0) {")
            scope.lines += chunk.lines
            scope.add("}")

    # ------------------------------------------------------------------------- folds and scans

    def fold_type(self, f: t.Fold) -> str:
        """Returns the C++ type of a fold's accumulator."""
        ctype = self.loops.segments[0].folds[f].ctype
        if f.kind == "sum" and ctype == "float" and f.dtype == "float64":
            return "double"
        return f"kw::place<{CTYPES[ctype]}>" if f.kind in ("argmax", "argmin") else CTYPES[ctype]

    def scan_type(self, s: t.Scan) -> str:
        """Returns the C++ type that a scan runs in."""
        return CTYPES[self.loops.segments[0].folds[s].ctype]

    def neutral(self, f: t.Fold) -> str:
        """Returns the C++ of what changes nothing."""
        ctype = self.loops.segments[0].folds[f].ctype
        low = f.kind in ("max", "max_of_exp", "argmax")
        sign = "-" if low else ""
        extreme = {
            "float": f"{sign}kw::inf()", "double": f"double({sign}kw::inf())",
            "int32_t": "(-2147483647 - 1)" if low else "2147483647",
            "int64_t": "(-9223372036854775807LL - 1)" if low else "9223372036854775807LL",
        }.get(ctype, "false")  # fmt: skip
        if f.kind in ("argmax", "argmin"):
            return f"{{{extreme}, 2147483647}}"
        return {"sum": "0", "product": "1", "any": "false", "all": "true"}.get(f.kind, extreme)

    def declare(self, scope: Scope, f: t.Fold) -> None:
        """Adds a fold's accumulator."""
        k, kind = self.folds.index(f), self.fold_type(f)
        if self.rows:
            scope.add(f"{kind} a{k} = {self.neutral(f)};")
        else:
            scope.add(f"{kind} a{k}[{self.width}];")
            scope.add(f"for (int v = 0; v < {self.width}; ++v) a{k}[v] = {self.neutral(f)};")

    def step(self, each: Scope, printer: Printer, f: t.Fold, segment: Segment) -> None:
        """Adds the line that takes one element in."""
        k, kind = self.folds.index(f), self.fold_type(f)
        name = f"a{k}" if self.rows else f"a{k}[v]"
        value = printer.text(segment.folds[f])
        taken = f"{kind}{{{value}, int({self.along(printer, segment)})}}" if "place" in kind else f"{kind}({value})"
        each.add(f"{name} = kw::{JOINS[f.kind]}()({name}, {taken});")

    def along(self, printer: Printer, segment: Segment) -> str:
        """Returns the C++ of an element's position along the reduced axes."""
        form, stride = Affine(), 1
        reduced = [*self.inner, segment.variables[-1]] if self.rows else self.inner
        for v in reversed(reduced):
            form = form + Affine(0, ((v, stride),))
            stride *= v.axis
        return printer.place(form)

    def join(self, scope: Scope, f: t.Fold) -> None:
        """Adds the line that joins the threads' accumulators, and names the result."""
        k, join = self.folds.index(f), f"kw::{JOINS[f.kind]}()"
        where = ".where" if f.kind in ("argmax", "argmin") else ""
        if self.rows:
            scope.add(f"const auto f{k} = kw::fold<{self.group}>(a{k}, {join}){where};")
            name = f"f{k}"
        else:
            scope.add(f"kw::fold_columns<{self.across}, {self.group}>(a{k}, {join});")
            name = f"a{k}[v]{where}"
        for e in fold_references(self.loops, f):
            scope.names[e] = name

    def scan_step(self, chunk: Scope, each: Scope, printer: Printer, s: t.Scan, segment: Segment) -> None:
        """Adds one step of a scan and names its value."""
        k, kind, sign = self.scans.index(s), self.scan_type(s), "+" if s.kind == "sum" else "*"
        value = printer.text(segment.folds[s])
        if not self.rows:
            each.add(f"c{k}[v] = c{k}[v] {sign} {value};")
            name = f"c{k}[v]"
        else:
            # Two loops over a thread's elements: their own scan first, then what the threads before make of it.
            neutral = literal_of(kind, s.kind)
            inside = value if self.is_exact(segment) else f"(here ? {value} : {neutral})"
            chunk.add(f"{kind} p{k}[{self.width}], sum{k} = {neutral};")
            each.add(f"sum{k} = sum{k} {sign} {inside};")
            each.add(f"p{k}[v] = sum{k};")
            between = [
                "}",
                f"const {kind} before{k} = kw::scan<{self.group}>(sum{k}, c{k}, kw::{JOINS[s.kind]}());",
                f"#pragma unroll {self.width}",
                f"for (int v = 0; v < {self.width}; ++v) {{",
            ]
            each.lines += ["    " * chunk.depth + line for line in between]
            each.names.clear()
            each.add(f"const {self.index} {segment.variables[-1].name} = base + v;")
            each.add(f"const {kind} r{k} = before{k} {sign} p{k}[v];")
            name = f"r{k}"
        for e in fold_references(self.loops, s):
            each.names[e] = name


def literal_of(kind: str, fold: str) -> str:
    """Returns the C++ of a scan's neutral element."""
    return f"{kind}({0 if fold == 'sum' else 1})"


def width_of(loops: Loops, vector_bytes: int) -> int:
    """Returns how many neighbouring elements a thread takes: as wide as the widest type and the axis allow."""
    widest = max([w.target for s in loops.segments for w in s.writes], key=lambda x: SIZES[x.dtype], default=None)
    size = SIZES[widest.dtype] if widest is not None else 4
    for segment in loops.segments:
        lane = segment.variables[-1]
        for e in below_roots(segment):
            if e.op == "load" and e.source.place.coefficient(lane) == 1:
                size = max(size, SIZES[e.source.dtype])
    width = max(1, vector_bytes // size)
    lanes = [s.variables[-1] for s in loops.segments]
    while width > 1 and any(v.extent % width or v.low % width for v in lanes):
        width //= 2
    return width


def below_roots(segment: Segment) -> list[Expression]:
    """Returns every expression of a segment."""
    seen: dict[Expression, None] = {}
    stack = [*segment.folds.values(), *(w.value for w in segment.writes)]
    while stack:
        e = stack.pop()
        if e not in seen:
            seen[e] = None
            stack.extend(e.args)
    return list(seen)


SIZES = {
    "float16": 2, "bfloat16": 2, "float32": 4, "float64": 8, "int64": 8, "int32": 4, "int16": 2, "uint8": 1, "int8": 1,
    "bool": 1,
}  # fmt: skip


def power_at_least(count: int, low: int, high: int) -> int:
    """Returns the smallest power of two that is at least `count`, between two powers of two."""
    power = low
    while power < count and power < high:
        power *= 2
    return power


def unpack(variables: list[Variable], number: str, indent: str, index: str) -> list[str]:
    """Returns the lines that compute variables from a running number, the last one fastest."""
    lines, stride = [], 1
    for v in reversed(variables):
        text = f"{number} / {stride}" if stride > 1 else number
        text = text if v is variables[0] else f"{text} % {v.extent}"
        lines.append(f"{indent}const {index} {v.name} = {text}{f' + {v.low}' if v.low else ''};")
        stride *= v.extent
    return lines
