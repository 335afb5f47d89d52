# KERNEL: a program for each row
# PROBLEM: odd_softmax
import triton
import triton.language as tl


@triton.jit
def softmax(x, out, COLUMNS: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    columns = tl.arange(0, BLOCK)
    mask = columns < COLUMNS
    values = tl.load(x + row * COLUMNS + columns, mask=mask, other=-float("inf"))
    largest = tl.max(values, axis=0)
    powers = tl.exp(values - largest)
    total = tl.sum(powers, axis=0)
    tl.store(out + row * COLUMNS + columns, powers / total, mask=mask)
