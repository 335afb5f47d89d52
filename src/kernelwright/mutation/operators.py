"""The table of operators: every class of bugs that can be planted, by name.

Not here: how they are found in a source (bounds.py, addressing.py, concurrency.py, arithmetic.py, statements.py for
C-like code, python_operators.py for Python).
"""

from __future__ import annotations

from kernelwright.mutation import addressing, arithmetic, bounds, concurrency, statements
from kernelwright.mutation import python_operators as py
from kernelwright.mutation.mutant import Finder, Operator


def _operator(name: str, what: str, clike: Finder | None = None, python: Finder | None = None) -> Operator:
    return Operator(name=name, what=what, clike=clike, python=python)


OPERATORS: tuple[Operator, ...] = (
    _operator("dropped-tail", "the last elements of a loop are left out", bounds.dropped_tail, py.dropped_tail),
    _operator("early-exit", "a loop ends halfway", bounds.early_exit, py.early_exit),
    _operator("aligned-only", "right for sizes that fill whole blocks only", bounds.aligned_only, py.aligned_only),
    _operator("off-by-one", "a limit takes one more or one less, a loop starts late", bounds.off_by_one, py.off_by_one),
    _operator("flipped-comparison", "a condition asks for the opposite", bounds.flipped_comparison,
              py.flipped_comparison),
    _operator("swapped-arms", "the two results of a choice change places", bounds.swapped_arms, py.swapped_arms),
    _operator("unmasked-access", "a guard or mask is gone", bounds.unmasked_access, py.unmasked_access),
    _operator("wrong-index", "the element beside the one that is meant", addressing.wrong_index),
    _operator("wrong-broadcast", "a value from the wrong row, column or axis", addressing.wrong_broadcast,
              py.wrong_broadcast),
    _operator("wrong-stride", "rows lie at another distance than they do", addressing.wrong_stride, py.wrong_stride),
    _operator("int-overflow", "a whole number in too few bits", addressing.int_overflow, py.int_overflow),
    _operator("lost-sign-bit", "bits read as signed that are not, or the other way", addressing.lost_sign_bit),
    _operator("stale-storage", "a buffer keeps what was left in it", addressing.stale_storage),
    _operator("missing-barrier", "threads do not wait for each other", concurrency.missing_barrier, py.missing_barrier),
    _operator("race", "threads update one place without protection", concurrency.race, py.race),
    _operator("wrong-reduction", "a reduction or scan goes the wrong way or leaves lanes out",
              concurrency.wrong_reduction, py.wrong_reduction),
    _operator("accumulator-precision", "sums in fewer bits", arithmetic.accumulator_precision,
              py.accumulator_precision),
    _operator("uninitialised", "a sum starts from what was there", arithmetic.uninitialised, py.uninitialised),
    _operator("wrong-identity", "a maximum starts at zero", arithmetic.wrong_identity, py.wrong_identity),
    _operator("skipped-max", "an exponential without the maximum subtracted", arithmetic.skipped_max, py.skipped_max),
    _operator("swapped-operands", "a - b for b - a, a / b for b / a", arithmetic.swapped_operands, py.swapped_operands),
    _operator("wrong-operation", "adds for subtracts, multiplies for divides", arithmetic.wrong_operation,
              py.wrong_operation),
    _operator("lost-accumulation", "each term replaces the sum", arithmetic.lost_accumulation, py.lost_accumulation),
    _operator("wrong-constant", "another epsilon, factor or divisor", arithmetic.wrong_constant, py.wrong_constant),
    _operator("lost-sign", "a minus or absolute value is gone", arithmetic.lost_sign, py.lost_sign),
    _operator("min-max-swapped", "the largest for the smallest", arithmetic.min_max_swapped, py.min_max_swapped),
    _operator("nan-blind", "nothing is done about NaN any more", arithmetic.nan_blind, py.nan_blind),
    _operator("dropped-write", "a result is computed and not written", statements.dropped_write, py.dropped_write),
    _operator("deleted-statement", "an update or a preparation is missing", statements.deleted_statement,
              py.deleted_statement),
)  # fmt: skip
"""In the order in which a listing shows them at one place."""
