# KERNEL: a program for each row, in blocks
# PROBLEM: odd_rmsnorm
import triton
import triton.language as tl


@triton.jit
def rms_norm(x, weight, out, COLUMNS: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    squares = tl.zeros((BLOCK,), dtype=tl.float32)
    for start in range(0, COLUMNS, BLOCK):
        columns = start + tl.arange(0, BLOCK)
        values = tl.load(x + row * COLUMNS + columns, mask=columns < COLUMNS, other=0.0)
        squares += values * values
    scale = 1.0 / tl.sqrt(tl.sum(squares, axis=0) / COLUMNS + 1e-5)
    for start in range(0, COLUMNS, BLOCK):
        columns = start + tl.arange(0, BLOCK)
        mask = columns < COLUMNS
        values = tl.load(x + row * COLUMNS + columns, mask=mask, other=0.0)
        weights = tl.load(weight + columns, mask=mask, other=0.0)
        tl.store(out + row * COLUMNS + columns, values * scale * weights, mask=mask)
