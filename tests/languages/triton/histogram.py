# Counts of 16 bins, by atomics; the counts start from zero.
# kernelwright-memset: out byte=0
# kernelwright-launch: histogram grid=ceil_div(500,64) n=500 BLOCK=64
import triton
import triton.language as tl


@triton.jit
def histogram(x, out, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = offsets < n
    bins = tl.load(x + offsets, mask=inside, other=0)
    tl.atomic_add(out + bins, tl.full((BLOCK,), 1, tl.int32), mask=inside)
