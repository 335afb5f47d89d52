"""C++ of one kernel: from lowered loops and a point of the schedule space to a function.

Two shapes of loop nest. In a *sweep* the vector runs along the innermost axis, and a row's folds are finished
across the lanes. In *lanes* the innermost axis is kept, each lane is a row of its own, and folds run over outer axes.
Not here: expressions (print.py), folds (accumulate.py), which kernel computes what (schedule.py).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import prod

from kernelwright.experts import tensors as t
from kernelwright.experts.accumulate import Accumulator, scan_type
from kernelwright.experts.expression import Expression
from kernelwright.experts.frame import Loops, Segment, Write, levels_of, pass_of
from kernelwright.experts.index import Affine, Variable
from kernelwright.experts.print import BUFFERS, Printer, Scope, buffer_name, stored, stored_scalar
from kernelwright.experts.reuse import Kept, kept_values, lanes_of

BLOCK_STEPS = 128
"""Vectors that one accumulator takes in before it is added to the next level."""
BLOCK_ROWS = 16
"""The same where each lane is a row of its own, whose sum is one long chain."""
STACK_BYTES = 1 << 18
"""Most bytes of a row that a thread keeps on its stack."""


@dataclass(frozen=True)
class Settings:
    """One point of the schedule space."""

    threads: int
    vector_bytes: int
    unroll: int
    stream: bool
    keep: str
    """What is kept of a row between passes: none, costly or all."""
    chunk: int
    """Elements of a row that one task of a kernel without folds does."""
    prefetch: int
    """Bytes ahead, 0 for none."""
    dynamic: bool


@dataclass
class Writer:
    """Prints one loop nest."""

    loops: Loops
    settings: Settings
    lines: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        variables = self.loops.variables
        self.lane = variables[-1]
        self.sweeps = not self.loops.reduced or self.lane in self.loops.reduced
        """Whether the vector runs along a reduced axis, or there is none."""
        self.kept = [v for v in variables if v not in self.loops.reduced and (v is not self.lane or not self.sweeps)]
        self.inner = [v for v in variables if v in self.loops.reduced and v is not self.lane]
        self.levels = levels_of(self.loops.segments[0].folds)
        self.folds = [f for f in self.levels if isinstance(f, t.Fold)]
        self.scans = [f for f in self.levels if isinstance(f, t.Scan)]
        self.lanes = lanes_of(self.loops, self.settings.vector_bytes, self.lane.extent)
        self.unroll = 1 if self.scans and self.sweeps else self.settings.unroll
        self.keeps: list[Kept] = []
        if self.sweeps and self.folds:
            room = prod(v.high for v in self.inner) * padded(self.lane.axis, self.lanes) * 4
            self.keeps = kept_values(self.loops, self.levels, self.settings.keep, limit=STACK_BYTES // room)

    # ------------------------------------------------------------------------- the nest

    def nest(self) -> list[str]:
        """Returns the lines of the parallel loop nest."""
        outer = [v for v in self.kept if v is not self.lane]
        rows = prod(v.extent for v in outer)
        tasks, opening, closing = self.tasks(rows)
        n, u = self.lanes, self.unroll
        self.lines = ["    {", f"        constexpr int N = {n};  // lanes of a vector"]
        for name, ctype in (("F", "float"), ("D", "double"), ("I", "int32_t"), ("L", "int64_t"), ("M", "int32_t")):
            self.lines.append(f"        using {name} [[maybe_unused]] = kw::vec<{ctype}, N>;")
        if self.sweeps:
            self.lines.append(f"        constexpr int U = {u};  // independent vectors in flight")
        depth = 3
        if self.settings.threads > 1:
            schedule = "dynamic, 4" if self.settings.dynamic else "static"
            self.lines += [f"        #pragma omp for schedule({schedule}) nowait"]
        self.lines += [f"        for (int64_t task = 0; task < {tasks}; ++task) {{"]
        row = "task" if not opening.divides else f"task / {opening.divides}"
        self.lines += unpack(outer, row, "    " * depth)
        self.lines += ["    " * depth + line for line in opening.lines]
        scope = Scope(frozenset(self.kept), depth + opening.deeper, each=not self.sweeps)
        self.body(scope, opening.bounds)
        self.lines += scope.lines
        self.lines += ["    " * depth + line for line in closing]
        self.lines += ["        }", "    }"]
        return self.lines

    def tasks(self, rows: int) -> tuple[int, Opening, list[str]]:
        """Returns the number of parallel tasks, and what stands around the body of one."""
        if not self.sweeps:
            return self.lane_tasks(rows)
        chunk = self.settings.chunk
        if self.folds or self.scans or self.lane.extent <= chunk:
            return rows, Opening(), []
        pieces = -(-self.lane.extent // chunk)
        low = f"task % {pieces} * {chunk}" if rows > 1 else f"task * {chunk}"
        start = f" + {self.lane.low}" if self.lane.low else ""
        lines = [
            f"const int64_t from = {low}{start};",
            f"const int64_t to = from + {chunk} < {self.lane.high} ? from + {chunk} : {self.lane.high};",
        ]
        return rows * pieces, Opening(lines, ("from", "to"), pieces, 0), []

    def lane_tasks(self, rows: int) -> tuple[int, Opening, list[str]]:
        """Returns tasks of U vectors side by side; what is left of the axis is done vector by vector."""
        n, u = self.lanes, self.unroll
        full, rest = divmod(self.lane.extent, n * u)
        single, tail = divmod(rest, n)
        pieces = full + single + bool(tail)
        calls = [f"if (piece < {full}) body(kw::count<{u}>(), piece * {n * u}, N);"] if full else []
        if single:
            at = f"{full * n * u} + (piece - {full}) * {n}"
            calls.append(f"{'else ' if calls else ''}if (piece < {full + single}) body(kw::count<1>(), {at}, N);")
        if tail:
            calls.append(f"{'else ' if calls else ''}body(kw::count<1>(), int64_t({self.lane.extent - tail}), {tail});")
        lines = [
            f"const int64_t piece = task % {pieces};",
            f"auto body = [&](auto copies, int64_t {self.lane.name}, int n) __attribute__((always_inline)) {{",
            "    constexpr int U = decltype(copies)::value;",
        ]
        return rows * pieces, Opening(lines, None, pieces, 1), ["};", *calls]

    # ------------------------------------------------------------------------- one row

    def body(self, scope: Scope, bounds: tuple[str, str] | None) -> None:
        """Adds the passes of one row to its scope."""
        lane_text = self.lane.name if self.sweeps else f"({self.lane.name} + u * N)"
        printer = Printer(self.lane, lane_text, [scope])
        printer.counter = 0
        for k in self.keeps:
            length = prod(v.high for v in self.inner) * padded(k.segment.variables[-1].extent, self.lanes)
            scope.add(f"alignas(64) float row{k.number}[{length}];  // of this row, kept between passes")
        writes = [(w, segment) for segment in self.loops.segments for w in segment.writes]
        last = max([*(v for v in self.levels.values()), *(pass_of(w.value, self.levels) for w, _ in writes)], default=0)
        for number in range(last + 1):
            self.one_pass(scope, printer, number, bounds)
            self.row_writes(scope, printer, number)

    def row_writes(self, scope: Scope, printer: Printer, number: int) -> None:
        """Adds the writes of values that are complete once a pass is over."""
        segment = self.loops.segments[0]
        for w in segment.writes:
            if not w.of_row or max(pass_of(w.value, self.levels) - 1, 0) != number:
                continue
            dtype = w.target.dtype
            if self.sweeps:
                value = stored_scalar(dtype, printer.text(w.value))
                scope.add(f"{buffer_name(w.target.name)}[{printer.affine(w.place)}] = {value};")
            else:
                scope.add(f"for (int u = 0; u < U; ++u) {self.put(printer, w)}")

    def put(self, printer: Printer, w: Write) -> str:
        """Returns the line that writes one vector."""
        value = printer.operand(w.value)
        dtype = w.target.dtype
        address = f"{buffer_name(w.target.name)} + {printer.affine(w.place, lane=True)}"
        aligned = all(c % self.lanes == 0 for term, c in w.place.terms if term is not self.lane)
        starts = all(v.low % self.lanes == 0 for v, _ in w.place.terms if v is self.lane and isinstance(v, Variable))
        wide = self.lanes * {"float64": 8, "int64": 8, "float32": 4, "int32": 4}.get(dtype, 2) in (16, 32, 64)
        streams = self.settings.stream and aligned and starts and w.place.offset % self.lanes == 0 and wide
        stream = "true" if streams and (self.settings.chunk % self.lanes == 0) else "false"
        if dtype == "bool":
            return f"kw::put_bools<false>({address}, {value}, n);"
        return f"kw::put<{stream}>({address}, {stored(dtype, w.value.ctype, value)}, n);"

    def one_pass(self, scope: Scope, printer: Printer, number: int, bounds: tuple[str, str] | None) -> None:
        """Adds one pass over a row: accumulators, the loops, and the results."""
        folds = [f for f in self.folds if self.levels[f] == number]
        scans = [s for s in self.scans if self.levels[s] == number]
        plan = [self.work(segment, number) for segment in self.loops.segments]
        if not folds and not scans and not any(plan):
            return
        ctypes = {f: self.loops.segments[0].folds[f].ctype for f in (*folds, *scans)}
        accumulators = [Accumulator(f, self.folds.index(f), ctypes[f]) for f in folds]
        for a in accumulators:
            for line in a.declare():
                scope.add(line)
        for s in scans:
            start, kind, k = "0" if s.kind == "sum" else "1", scan_type(ctypes[s]), self.scans.index(s)
            if self.sweeps:
                scope.add(f"{kind} c{k} = {start};")
            else:
                scope.add(f"kw::vec<{kind}, N> c{k}[U];")
                scope.add(f"for (int u = 0; u < U; ++u) c{k}[u] = kw::vec<{kind}, N>{{}} + {start};")
        Pass(self, printer, accumulators, scans, number).add(scope, bounds)
        for a in accumulators:
            self.result(scope, printer, a)

    def work(self, segment: Segment, number: int) -> list[Write]:
        """Returns the writes of one pass that happen for each element."""
        return [w for w in segment.writes if not w.of_row and pass_of(w.value, self.levels) == number]

    def result(self, scope: Scope, printer: Printer, a: Accumulator) -> None:
        """Adds the lines that finish a fold, and names its result."""
        name = f"f{a.number}"
        if self.sweeps:
            for line in a.join() if self.unroll > 1 else []:
                scope.add(line)
            ctype, text = a.across()
            scope.add(f"const {ctype} {name} = {text};")
        else:
            name = f"{'p' if a.place else 'a'}{a.number}[u]"
        for e in fold_references(self.loops, a.fold):
            scope.names[e] = name


@dataclass(frozen=True)
class Opening:
    """What stands before the body of a task."""

    lines: list[str] = field(default_factory=list)
    bounds: tuple[str, str] | None = None
    """C++ of the bounds of the innermost loop, where a task does only a part of it."""
    divides: int = 0
    """Tasks for each row, 0 for one."""
    deeper: int = 0


@dataclass
class Pass:
    """Prints the loops of one pass over a row."""

    writer: Writer
    printer: Printer
    accumulators: list[Accumulator]
    scans: list[t.Scan]
    number: int

    def add(self, scope: Scope, bounds: tuple[str, str] | None) -> None:
        """Adds the loops, with blocks of sums where a row is long."""
        w = self.writer
        inner = [v for v in w.inner if v is not w.lane]
        opened: list[Scope] = []
        current = scope
        split = self.block_axis(inner)
        for v in inner:
            body = Scope(current.bound | {v}, current.depth + 1 + (v is split), each=not w.sweeps)
            opened.append(body)
            self.printer.scopes.append(body)
            current = body
        for segment in w.loops.segments:
            self.innermost(current, segment, bounds)
        for v, body, parent in reversed(list(zip(inner, opened, [scope, *opened], strict=False))):
            self.printer.scopes.pop()
            self.close(parent, body, v, blocked=v is split)

    def block_axis(self, inner: list[Variable]) -> Variable | None:
        """Returns the loop that is cut into blocks for the sake of sums: outside the vectors, where it is long."""
        w = self.writer
        if any(a.blocked for a in self.accumulators) and inner:
            if not w.sweeps and inner[-1].high > 2 * BLOCK_ROWS:
                return inner[-1]
            if w.sweeps and prod(v.high for v in inner) * w.lane.high > 2 * BLOCK_STEPS * w.lanes * w.unroll:
                return inner[-1] if inner[-1].high > 1 else None
        return None

    def close(self, parent: Scope, body: Scope, v: Variable, *, blocked: bool) -> None:
        """Adds a finished loop over a variable to its parent."""
        step = 1
        if blocked:
            per_step = -(-self.writer.lane.high // (self.writer.lanes * self.writer.unroll))
            step = max(1, BLOCK_STEPS // per_step) if self.writer.sweeps else BLOCK_ROWS
            self.open_blocks(parent)
            parent.add(f"for (int64_t block = 0; block < {v.high}; block += {step}) {{")
            end = f"block + {step} < {v.high} ? block + {step} : {v.high}"
            parent.lines.append(
                "    " * (parent.depth + 1)
                + f"for (int64_t {v.name} = block, to = {end}; {v.name} < to; ++{v.name}) {{"
            )
            parent.lines += [*body.lines, "    " * (parent.depth + 1) + "}"]
            parent.lines += ["    " * (parent.depth + 1) + line for line in self.flush()]
            parent.add("}")
            self.close_blocks(parent)
            return
        parent.add(f"for (int64_t {v.name} = 0; {v.name} < {v.high}; ++{v.name}) {{")
        parent.lines += body.lines
        parent.add("}")

    def open_blocks(self, scope: Scope) -> None:
        """Adds the second level of accumulators."""
        for a in self.accumulators:
            if a.blocked:
                scope.add(f"{a.vector} s{a.number}[U]; for (int u = 0; u < U; ++u) s{a.number}[u] = {a.neutral()};")

    def flush(self) -> list[str]:
        """Returns the lines that add a block's sums to the second level."""
        return [
            f"for (int u = 0; u < U; ++u) {{ s{a.number}[u] += a{a.number}[u]; a{a.number}[u] = {a.neutral()}; }}"
            for a in self.accumulators
            if a.blocked
        ]

    def close_blocks(self, scope: Scope) -> None:
        """Adds the lines that leave the sums where the first level had them."""
        for a in self.accumulators:
            if a.blocked:
                scope.add(f"for (int u = 0; u < U; ++u) a{a.number}[u] = s{a.number}[u];")

    def innermost(self, scope: Scope, segment: Segment, bounds: tuple[str, str] | None) -> None:
        """Adds the innermost loop over one segment."""
        w = self.writer
        lane = segment.variables[-1]
        body = Scope(scope.bound | {lane}, scope.depth + 1)
        if not w.sweeps:
            scope.add("#pragma GCC unroll 16")
            scope.add("for (int u = 0; u < U; ++u) {")
            body.bound = frozenset()  # nothing may be hoisted into it
            self.printer.scopes.append(Scope(scope.bound, scope.depth + 1))
            self.statements(self.printer.scopes[-1], segment)
            scope.lines += self.printer.scopes.pop().lines
            scope.add("}")
            return
        self.printer.lane = lane
        low, high = bounds or (str(lane.low), str(lane.high))
        steps = lane.extent // (w.lanes * w.unroll)
        blocked = not w.inner and steps > 2 * BLOCK_STEPS and any(a.blocked for a in self.accumulators)
        body.depth += blocked
        self.printer.scopes.append(body)
        self.statements(body, segment)
        self.printer.scopes.pop()
        head = f"[&](int64_t {lane.name}, int n, [[maybe_unused]] int u) __attribute__((always_inline)) {{"
        if blocked:
            size = BLOCK_STEPS * w.lanes * w.unroll
            self.open_blocks(scope)
            scope.add(f"for (int64_t block = {low}; block < {high}; block += {size}) {{")
            end = f"block + {size} < {high} ? block + {size} : {high}"
            low, high = "block", end
        scope.lines.append("    " * (body.depth - 1) + f"kw::sweep<N, U>({low}, {high}, {head}")
        scope.lines += [*body.lines, "    " * (body.depth - 1) + "});"]
        if blocked:
            scope.lines += ["    " * (body.depth - 1) + line for line in self.flush()]
            scope.add("}")
            self.close_blocks(scope)

    def statements(self, body: Scope, segment: Segment) -> None:
        """Adds what happens for each vector: kept values, folds, scans and writes."""
        w, p = self.writer, self.printer
        p.loads.clear()
        mine = [k for k in w.keeps if k.segment is segment]
        for k in mine:
            if k.first < self.number:
                body.names[k.value] = f"kw::load_aligned<float, N>(row{k.number} + {self.row_place(segment)})"
        if self.number and mine:
            for k in mine:
                if k.first < self.number and self.needs(segment, k.value):
                    body.add(f"const F k{k.number} = {body.names[k.value]};")
                    body.names[k.value] = f"k{k.number}"
        for k in mine:
            if k.first == self.number:
                body.add(f"kw::store_aligned(row{k.number} + {self.row_place(segment)}, {p.operand(k.value)});")
        for a in self.accumulators:
            body.add(a.step(p.operand(segment.folds[a.fold]), self.place(a, segment)))
        for s in self.scans:
            self.scan(body, s, segment)
        for write in w.work(segment, self.number):
            body.add(w.put(p, write))
        if w.settings.prefetch and self.number == 0:
            for name, address in p.loads:
                if not name.startswith("work_"):
                    body.add(f"__builtin_prefetch(reinterpret_cast<const char*>({address}) + {w.settings.prefetch});")

    def needs(self, segment: Segment, value: Expression) -> bool:
        """Returns whether this pass uses a kept value directly."""
        w = self.writer
        roots = [segment.folds[a.fold] for a in self.accumulators] + [segment.folds[s] for s in self.scans]
        roots += [x.value for x in w.work(segment, self.number)]
        stops = {k.value for k in w.keeps if k.first < self.number}
        seen: set[Expression] = set()
        while roots:
            e = roots.pop()
            if e is value:
                return True
            if e not in seen and e not in stops:
                seen.add(e)
                roots.extend(e.args)
        return False

    def row_place(self, segment: Segment) -> str:
        """Returns the C++ of a vector's place in a kept row."""
        w = self.writer
        lane = segment.variables[-1]
        stride = padded(lane.extent, w.lanes)
        parts = [f"{lane.name} - {lane.low}" if lane.low else lane.name]
        for v in reversed(w.inner):
            parts.append(f"{v.name} * {stride}")
            stride *= v.high
        return " + ".join(reversed(parts))

    def place(self, a: Accumulator, segment: Segment) -> str:
        """Returns the C++ of where the lanes are along a fold's axes."""
        if not a.place:
            return ""
        w = self.writer
        reduced = [v for v in segment.variables if v in w.loops.reduced or (v is segment.variables[-1] and w.sweeps)]
        form, stride = Affine(), 1
        for v in reversed(reduced):
            form = form + Affine(0, ((v, stride),))
            stride *= v.axis
        text = self.printer.affine(form)
        return f"kw::iota<I>() + int32_t({text})" if w.sweeps else f"kw::broadcast<I>({text})"

    def scan(self, body: Scope, s: t.Scan, segment: Segment) -> None:
        """Adds one step of a scan and names its value."""
        w, k = self.writer, self.writer.scans.index(s)
        value = self.printer.operand(segment.folds[s])
        if w.sweeps:
            text = f"kw::running_{s.kind}({value}, c{k})"
            body.add(f"const auto r{k} = {text};")
        else:
            sign = "+" if s.kind == "sum" else "*"
            kind = segment.folds[s].ctype
            body.add(f"c{k}[u] = c{k}[u] {sign} kw::convert<{scan_type(kind)}>({value});")
            body.add(f"const auto r{k} = kw::convert<{kind}>(c{k}[u]);")
        for e in fold_references(w.loops, s):
            body.names[e] = f"r{k}"


def fold_references(loops: Loops, tensor: t.Tensor) -> list[Expression]:
    """Returns every expression that stands for a fold's or scan's result."""
    found: list[Expression] = []
    seen: set[Expression] = set()
    for segment in loops.segments:
        stack = [*segment.folds.values(), *(w.value for w in segment.writes)]
        while stack:
            e = stack.pop()
            if e not in seen:
                seen.add(e)
                stack.extend(e.args)
                found += [e] if e.data is tensor else []
    return found


def padded(extent: int, lanes: int) -> int:
    """Returns an extent rounded up to whole vectors."""
    return -(-extent // lanes) * lanes


def unpack(variables: list[Variable], row: str, indent: str) -> list[str]:
    """Returns the lines that compute the kept variables from a row's number."""
    if not variables:
        return []
    if len(variables) == 1:
        v = variables[0]
        return [f"{indent}const int64_t {v.name} = {row}{f' + {v.low}' if v.low else ''};"]
    lines = [f"{indent}const int64_t row = {row};"]
    stride = 1
    for v in reversed(variables):
        text = f"row / {stride}" if stride > 1 else "row"
        text = text if v is variables[0] else f"{text} % {v.extent}"
        lines.append(f"{indent}const int64_t {v.name} = {text}{f' + {v.low}' if v.low else ''};")
        stride *= v.extent
    return lines


def buffer_type(dtype: str) -> str:
    """Returns the element's C type of a buffer."""
    return BUFFERS[dtype]
