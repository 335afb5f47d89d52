"""Tile kernels of one loop nest: from lowered loops and a point of the schedule space to the body of a kernel.

A program holds tiles of R by B elements. *flat*: no fold, a program computes one tile of the output. *rows*: the
innermost axis is reduced (or scanned) along the tile's second axis, R rows at once; a row that fits stays in registers
between passes, because its values keep their names. *columns*: the innermost axis is kept along the second axis, and
what is reduced runs along the first. Accumulators are whole tiles, folded after the loop.
Not here: expressions (tile_printer.py), what is launched (tile_candidate.py).
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from kernelwright.experts import tensors as t
from kernelwright.experts.emit import fold_references
from kernelwright.experts.frame import Loops, Segment, Write, levels_of, pass_of
from kernelwright.experts.gpu.kernel import power_at_least
from kernelwright.experts.gpu.tile_printer import Dialect, Printer, View, buffer_name
from kernelwright.experts.index import Affine, Variable
from kernelwright.experts.print import Scope

ENOUGH_PROGRAMS = 256
"""Rows are not shared by programs below this number."""
SMALLEST = 256
"""Elements of a tile without folds that is not cut further to have enough programs."""
NARROWEST = 32
"""Lanes of a tile that is cut to waste less than a quarter of its elements."""


@dataclass(frozen=True)
class Settings:
    """One point of the schedule space, as far as the body of a kernel depends on it."""

    block: int
    """Elements of a tile, unless a row needs more."""
    chunk: int
    """The longest stretch of a row that is held at once."""
    rows: int
    """Rows of a program; 0 leaves it to `block`."""
    lanes: int
    """Columns of a program where columns are folded."""
    stages: int
    """Turns of a loop that are loaded ahead."""


@dataclass(frozen=True)
class Part:
    """One piece of work of a program, and how many programs do such pieces."""

    lines: tuple[str, ...]
    programs: int


class TileWriter:
    """Prints one loop nest as the body of one kernel."""

    def __init__(self, loops: Loops, settings: Settings, dialect: Dialect, index: str = "int32_t") -> None:
        self.loops, self.settings, self.dialect, self.index = loops, settings, dialect, index
        variables, reduced = loops.variables, loops.reduced
        self.lane = variables[-1]
        self.levels = levels_of(loops.segments[0].folds)
        self.folds = [f for f in self.levels if isinstance(f, t.Fold)]
        self.scans = [f for f in self.levels if isinstance(f, t.Scan)]
        self.flat = not self.folds and not self.scans
        self.rows = not self.flat and self.lane in reduced
        self.outer = [v for v in variables if v not in reduced and v is not self.lane]
        self.inner = [v for v in variables if v in reduced and v is not self.lane]
        self.joint = self.rows and bool(self.inner) and len(loops.segments) == 1
        """Whether all reduced variables run along the tile together."""
        self.along = 1 if self.rows else 0
        """The tile axis that is folded."""
        self.shape = (1, 1)
        self.elements = 1
        """Of the largest tile."""
        self.printer = Printer(dialect, View((1, 1)), index, [], tables=loops.tables)

    def body(self) -> tuple[list[str], int]:
        """Returns the lines of the kernel and the number of its programs."""
        parts = [self.row_part()] if self.rows else [self.kept_part(s) for s in self.loops.segments]
        lines = [f"    program = {self.dialect.program(self.index)}"]
        first = 0
        for part in parts:
            if len(parts) == 1:
                return [*lines, *part.lines], part.programs
            lines.append(f"    if (program >= {first}) & (program < {first + part.programs}):")
            lines += [f"    {line}" for line in part.lines]
            first += part.programs
        return lines, first

    # ------------------------------------------------------------------------ what a program does

    def row_part(self) -> Part:
        """Returns the work on a few rows."""
        rows = prod(v.extent for v in self.outer)
        length = max(prod(v.extent for v in self.inner) if self.joint else 1, 1)
        length *= max(s.variables[-1].extent for s in self.loops.segments)
        lanes = power_at_least(length, 1, self.settings.chunk)
        wanted = self.settings.rows or max(1, self.settings.block // lanes)
        count = power_at_least(rows, 1, wanted)
        while not self.settings.rows and count > 1 and rows // count < ENOUGH_PROGRAMS:
            count //= 2
        self.use(count, lanes)
        scope = Scope(frozenset(self.outer), 1)
        view = View(self.shape)
        self.rows_of_tile(scope, view, "program", rows)
        self.passes(scope, view, list(self.loops.segments))
        return Part(tuple(scope.lines), -(-rows // count))

    def kept_part(self, segment: Segment) -> Part:
        """Returns the work on a piece of the kept innermost axis."""
        lane = segment.variables[-1]
        before = self.programs_before(segment)
        start = f"(program - {before})" if before else "program"
        rows, lanes, count = self.kept_shape(segment)
        self.use(count, lanes)
        pieces = -(-lane.extent // lanes)
        scope = Scope(frozenset({*self.outer, lane}), 1)
        view = View(self.shape)
        across = f"{start} % {pieces}" if pieces > 1 else ""
        base = f"{across} * {lanes} + " if across else ""
        name = self.printer.fresh("lane")
        scope.add(f"{name} = {base}{self.dialect.arange(lanes, 1, self.index)}")
        self.mask(scope, view, 1, name, lane.extent, lanes * pieces)
        self.bind(scope, view, lane, f"{name} + {lane.low}" if lane.low else name, 1)
        group = f"({start} // {pieces})" if pieces > 1 else start
        if self.flat:
            self.rows_of_tile(scope, view, group, rows)
            programs = -(-rows // count) * pieces
        else:
            self.unpack(scope, view, self.outer, group, None)
            programs = rows * pieces
        self.passes(scope, view, [segment])
        return Part(tuple(scope.lines), programs)

    def kept_shape(self, segment: Segment) -> tuple[int, int, int]:
        """Returns the rows of the frame, and the lanes and the height of a tile."""
        extent = segment.variables[-1].extent
        rows = prod(v.extent for v in self.outer)
        if self.flat:
            lanes = lanes_for(extent, self.settings.block)
            count = power_at_least(rows, 1, max(1, self.settings.block // lanes))
            while count > 1 and count * lanes > SMALLEST and rows // count * -(-extent // lanes) < ENOUGH_PROGRAMS:
                count //= 2
            return rows, lanes, count
        lanes = lanes_for(extent, self.settings.lanes)
        length = prod(v.extent for v in self.inner)
        return rows, lanes, power_at_least(length, 1, max(1, self.settings.block // lanes))

    def programs_before(self, segment: Segment) -> int:
        """Returns how many programs work on earlier segments."""
        total = 0
        for other in self.loops.segments:
            if other is segment:
                return total
            rows, lanes, count = self.kept_shape(other)
            pieces = -(-other.variables[-1].extent // lanes)
            total += pieces * (-(-rows // count) if self.flat else rows)
        return total

    def use(self, count: int, lanes: int) -> None:
        """Sets the tile's shape."""
        self.shape = (count, lanes)
        self.elements = max(self.elements, count * lanes)

    def rows_of_tile(self, scope: Scope, view: View, group: str, rows: int) -> None:
        """Adds the lines that find the kept outer variables: along the first axis, or scalars where it has one row."""
        count = self.shape[0]
        if count == 1:
            self.unpack(scope, view, self.outer, group, None)
            return
        name = self.printer.fresh("row")
        scope.add(f"{name} = {group} * {count} + {self.dialect.arange(count, 0, self.index)}")
        self.mask(scope, view, 0, name, rows, -(-rows // count) * count)
        self.unpack(scope, view, self.outer, name, 0)

    def mask(self, scope: Scope, view: View, axis: int, name: str, extent: int, covered: int) -> None:
        """Adds the mask of an axis where tiles reach beyond it."""
        view.masks.pop(axis, None)
        if covered > extent:
            live = self.printer.fresh("live")
            scope.add(f"{live} = {name} < {extent}")
            view.masks[axis] = live

    def bind(self, scope: Scope, view: View, variable: Variable, text: str, axis: int | None) -> None:
        """Names a loop variable."""
        name = self.printer.fresh(f"{variable.name}_")
        scope.add(f"{name} = {text}")
        view.names[variable] = name
        if axis is not None:
            view.axes[variable] = axis

    def unpack(self, scope: Scope, view: View, variables: list[Variable], number: str, axis: int | None) -> None:
        """Adds the lines that compute variables from a running number, the last one fastest."""
        stride = 1
        for v in reversed(variables):
            text = f"{number} // {stride}" if stride > 1 else number
            text = text if v is variables[0] else f"{text} % {v.extent}"
            self.bind(scope, view, v, f"{text} + {v.low}" if v.low else text, axis)
            stride *= v.extent

    # ------------------------------------------------------------------------------------ passes

    def passes(self, scope: Scope, view: View, segments: list[Segment]) -> None:
        """Adds every pass over the tile's rows or columns, and what is written after each."""
        self.printer.view, self.printer.scopes = view, [scope]
        for segment in segments:
            if self.turns(segment) == 1:
                self.one_turn(scope, view, segment)
        writes = [w for segment in segments for w in segment.writes]
        last = max([*self.levels.values(), *(pass_of(w.value, self.levels) for w in writes)], default=0)
        for number in range(last + 1):
            self.one_pass(scope, view, segments, number)
            for w in segments[0].writes:
                if w.of_row and max(pass_of(w.value, self.levels) - 1, 0) == number:
                    self.write(scope, w, of_row=True)

    def turns(self, segment: Segment) -> int:
        """Returns how often a program moves on along what is reduced."""
        if self.flat:
            return 1
        inner = prod(v.extent for v in self.inner)
        if not self.rows:
            return -(-inner // self.shape[0])
        lane = segment.variables[-1].extent
        return -(-inner * lane // self.shape[1]) if self.joint else inner * -(-lane // self.shape[1])

    def one_turn(self, scope: Scope, view: View, segment: Segment) -> None:
        """Adds what a loop of one turn would say; its values keep their names in later passes."""
        if self.flat:
            return
        self.reduced_variables(scope, view, segment, "")
        scope.bound |= {*self.inner, segment.variables[-1]}

    def reduced_variables(self, scope: Scope, view: View, segment: Segment, turn: str) -> None:
        """Adds the lines that find the reduced variables in one turn of a loop."""
        lane, lanes = segment.variables[-1], self.shape[1]
        name = self.printer.fresh("at")
        if not self.rows:
            count, length = self.shape[0], prod(v.extent for v in self.inner)
            base = f"{turn} * {count} + " if turn else ""
            scope.add(f"{name} = {base}{self.dialect.arange(count, 0, self.index)}")
            self.mask(scope, view, 0, name, length, self.turns(segment) * count)
            self.unpack(scope, view, self.inner, name, 0)
            return
        length = lane.extent * (prod(v.extent for v in self.inner) if self.joint else 1)
        pieces = -(-length // lanes)
        piece = turn if self.joint or not self.inner else f"{turn} % {pieces}"
        base = f"{piece} * {lanes} + " if turn and pieces > 1 else ""
        scope.add(f"{name} = {base}{self.dialect.arange(lanes, 1, self.index)}")
        self.mask(scope, view, 1, name, length, pieces * lanes)
        if self.joint:
            self.unpack(scope, view, [*self.inner, lane], name, 1)
            return
        self.unpack(scope, view, self.inner, f"{turn or 0} // {pieces}" if pieces > 1 else turn or "0", None)
        self.bind(scope, view, lane, f"{name} + {lane.low}" if lane.low else name, 1)

    def one_pass(self, scope: Scope, view: View, segments: list[Segment], number: int) -> None:
        """Adds one pass: accumulators, the loop of every segment, the results."""
        folds = [f for f in self.folds if self.levels[f] == number]
        scans = [s for s in self.scans if self.levels[s] == number]
        if not folds and not scans and not any(self.element_writes(s, number) for s in segments):
            return
        for f in folds:
            self.declare(scope, f)
        for s in scans:
            shape = (self.shape[0], 1) if self.rows else (1, self.shape[1])
            start = "0" if s.kind == "sum" else "1"
            scope.add(f"carry{self.scans.index(s)} = {self.dialect.full(shape, start, self.type_of(s))}")
        for segment in segments:
            self.sweep(scope, view, segment, number)
        for f in folds:
            self.join(scope, f)

    def sweep(self, scope: Scope, view: View, segment: Segment, number: int) -> None:
        """Adds what one pass does with one segment: as it is, or in a loop."""
        if self.turns(segment) == 1:
            if len(self.loops.segments) > 1 and self.rows:
                lane = segment.variables[-1]
                self.mask_again(scope, view, lane)
            self.work(scope, segment, number)
            return
        turn = self.printer.fresh("turn")
        inner = View(view.shape, dict(view.names), dict(view.axes), dict(view.masks))
        body = Scope(scope.bound | {*self.inner, segment.variables[-1]}, scope.depth + 1)
        self.reduced_variables(body, inner, segment, turn)
        self.printer.view, self.printer.scopes = inner, [scope, body]
        self.work(body, segment, number)
        self.printer.view, self.printer.scopes = view, [scope]
        scope.add(self.dialect.loop(turn, self.turns(segment), self.settings.stages))
        scope.lines += body.lines

    def mask_again(self, scope: Scope, view: View, lane: Variable) -> None:
        """Sets the mask of a segment that shares its axis with others."""
        self.mask(scope, view, 1, f"({view.names[lane]} - {lane.low})", lane.extent, self.shape[1])

    def work(self, scope: Scope, segment: Segment, number: int) -> None:
        """Adds what happens with every element in one pass."""
        for f in self.folds:
            if self.levels[f] == number:
                self.step(scope, f, segment)
        for s in self.scans:
            if self.levels[s] == number:
                self.scan_step(scope, s, segment)
        for w in self.element_writes(segment, number):
            self.write(scope, w, of_row=False)

    def element_writes(self, segment: Segment, number: int) -> list[Write]:
        """Returns the writes of one pass that happen for each element."""
        return [w for w in segment.writes if not w.of_row and pass_of(w.value, self.levels) == number]

    def write(self, scope: Scope, w: Write, *, of_row: bool) -> None:
        """Adds the line that stores a tile, or one value of each row or column."""
        printer, view = self.printer, self.printer.view
        value, place = printer.text(w.value), printer.place(w.place)
        axes = frozenset(view.axes[v] for v, _ in w.place.terms if isinstance(v, Variable) and v in view.axes)
        if not of_row and any(isinstance(f, t.Scan) for f in w.value.folds):
            axes = frozenset((0, 1))
            place = f"{place} + {self.dialect.full(self.shape, '0', self.index)}"
        elif not axes:
            place = f"{place} + {self.dialect.full((1, 1), '0', self.index)}"
        scope.add(self.dialect.store(buffer_name(w.target.name), place, value, view.mask(axes), w.target.dtype))

    # --------------------------------------------------------------------------- folds and scans

    def type_of(self, f: t.Tensor) -> str:
        """Returns the C type in which a fold or scan runs."""
        ctype = self.loops.segments[0].folds[f].ctype
        if isinstance(f, t.Fold) and f.kind in ("any", "all"):
            return "int32_t"
        return "double" if isinstance(f, t.Fold) and f.kind == "sum" and f.dtype == "float64" else ctype

    def neutral(self, f: t.Tensor) -> str:
        """Returns the number that changes nothing."""
        assert isinstance(f, t.Fold | t.Scan)
        if f.kind in ("sum", "any"):
            return "0"
        if f.kind in ("product", "all"):
            return "1"
        low = f.kind in ("max", "max_of_exp", "argmax")
        ctype = self.type_of(f)
        if ctype in ("float", "double"):
            return self.dialect.number("-inf" if low else "inf")
        bits = 31 if ctype == "int32_t" else 63
        return str(-(1 << bits) if low else (1 << bits) - 1)

    def declare(self, scope: Scope, f: t.Fold) -> None:
        """Adds a fold's accumulator, and the places of one that looks for a place."""
        k = self.folds.index(f)
        scope.add(f"sum{k} = {self.dialect.full(self.shape, self.neutral(f), self.type_of(f))}")
        if f.kind in ("argmax", "argmin"):
            scope.add(f"where{k} = {self.dialect.full(self.shape, str((1 << 31) - 1), 'int32_t')}")

    def taken(self, f: t.Tensor, segment: Segment) -> str:
        """Returns what a fold or scan takes in, neutral where the tile reaches beyond what is folded."""
        e = segment.folds[f]
        text, ctype = self.printer.text(e), self.type_of(f)
        if e.ctype != ctype:
            text = self.dialect.cast(text, ctype)
        mask = self.printer.view.masks.get(self.along)
        return self.dialect.where(mask, text, self.dialect.full((1, 1), self.neutral(f), ctype)) if mask else text

    def step(self, scope: Scope, f: t.Fold, segment: Segment) -> None:
        """Adds the lines that take one tile in."""
        k, d = self.folds.index(f), self.dialect
        new = self.taken(f, segment)
        if f.kind in ("argmax", "argmin"):
            self.place_step(scope, f, segment, new)
        elif f.kind in ("sum", "product"):
            scope.add(f"sum{k} = sum{k} {'+' if f.kind == 'sum' else '*'} {new}")
        else:
            op = {"any": "max", "all": "min", "max_of_exp": "max_second"}.get(f.kind, f.kind)
            scope.add(f"sum{k} = {d.call(op, self.type_of(f), [f'sum{k}', new])}")

    def place_step(self, scope: Scope, f: t.Fold, segment: Segment, new: str) -> None:
        """Adds the lines that compare one tile with the best so far: of equals the first, a NaN before all."""
        k, d = self.folds.index(f), self.dialect
        name, better = self.printer.fresh("new"), self.printer.fresh("better")
        scope.add(f"{name} = {new}")
        sign = ">" if f.kind == "argmax" else "<"
        # What is neutral has no place yet: the first element that equals it must still get one.
        fresh = f"(({name} == sum{k}) & (where{k} == {(1 << 31) - 1}))"
        scope.add(f"{better} = ({name} {sign} sum{k}) | (({name} != {name}) & (sum{k} == sum{k})) | {fresh}")
        mask = self.printer.view.masks.get(self.along)
        if mask:
            scope.add(f"{better} = {better} & {mask}")
        form, stride = Affine(), 1
        for v in reversed([*self.inner, segment.variables[-1]] if self.rows else self.inner):
            form = form + (Affine(0, ((v, stride),)) if v.extent > 1 else Affine(v.low * stride))
            stride *= v.axis
        here = (
            d.cast(self.printer.place(form), "int32_t") if form.terms else d.full((1, 1), str(form.offset), "int32_t")
        )
        scope.add(f"where{k} = {d.where(better, here, f'where{k}')}")
        scope.add(f"sum{k} = {d.where(better, name, f'sum{k}')}")

    def join(self, scope: Scope, f: t.Fold) -> None:
        """Adds the lines that fold an accumulator, and names the result."""
        k, d, ctype = self.folds.index(f), self.dialect, self.type_of(f)
        if f.kind in ("argmax", "argmin"):
            scope.add(f"best{k} = {d.fold(f.kind[3:], f'sum{k}', self.along, ctype)}")
            same = f"(sum{k} == best{k}) | ((sum{k} != sum{k}) & (best{k} != best{k}))"
            places = d.where(same, f"where{k}", d.full((1, 1), str((1 << 31) - 1), "int32_t"))
            text = d.fold("min", places, self.along, "int32_t")
        else:
            text = d.fold({"any": "max", "all": "min"}.get(f.kind, f.kind), f"sum{k}", self.along, ctype)
        scope.add(f"fold{k} = {text}{' != 0' if f.kind in ('any', 'all') else ''}")
        for e in fold_references(self.loops, f):
            scope.names[e] = f"fold{k}"

    def scan_step(self, scope: Scope, s: t.Scan, segment: Segment) -> None:
        """Adds one step of a scan along the tile and names its value."""
        k, d, ctype = self.scans.index(s), self.dialect, self.type_of(s)
        sign, kind = ("+", "sum") if s.kind == "sum" else ("*", "product")
        new, run = self.printer.fresh("new"), self.printer.fresh("run")
        start = d.full(self.shape, "0" if kind == "sum" else "1", ctype)
        scope.add(f"{new} = {start} {sign} {self.taken(s, segment)}")
        scope.add(f"{run} = carry{k} {sign} {d.scan(kind, new, self.along)}")
        scope.add(f"carry{k} = carry{k} {sign} {d.fold(kind, new, self.along, ctype)}")
        for e in fold_references(self.loops, s):
            scope.names[e] = run


def lanes_for(extent: int, most: int) -> int:
    """Returns lanes of a tile: the most that waste less than a quarter, or those that waste least."""
    lanes = power_at_least(extent, 1, most)
    choices = [lanes]
    while choices[-1] > NARROWEST:
        choices.append(choices[-1] // 2)
    for n in choices:
        if -(-extent // n) * n <= extent * 5 // 4:
            return n
    return min(choices, key=lambda n: -(-extent // n) * n)
