# The largest value of all, in two kernels and a workspace.
# kernelwright-workspace: partial float 8
# kernelwright-launch: first grid=8 n=500 BLOCK=64
# kernelwright-launch: second grid=1 COUNT=8
import triton
import triton.language as tl


@triton.jit
def first(x, partial, n, BLOCK: tl.constexpr):
    i = tl.program_id(0)
    offsets = i * BLOCK + tl.arange(0, BLOCK)
    values = tl.load(x + offsets, mask=offsets < n, other=float("-inf"))
    tl.store(partial + i, tl.max(values, axis=0))


@triton.jit
def second(partial, out, COUNT: tl.constexpr):
    tl.store(out, tl.max(tl.load(partial + tl.arange(0, COUNT)), axis=0))
