# out = x * y + x in bfloat16, computed in float32.
# kernelwright-launch: fused grid=ceil_div(300,64) n=300 BLOCK=64
import triton
import triton.language as tl


@triton.jit
def fused(x, y, out, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = offsets < n
    a = tl.load(x + offsets, mask=inside).to(tl.float32)
    b = tl.load(y + offsets, mask=inside).to(tl.float32)
    tl.store(out + offsets, (a * b + a).to(tl.bfloat16), mask=inside)
