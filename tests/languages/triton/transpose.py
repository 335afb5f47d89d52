# out = x.T
# kernelwright-launch: transpose grid=ceil_div(50,16),ceil_div(70,16) M=50 N=70 SIDE=16
import triton
import triton.language as tl


@triton.jit
def transpose(x, out, M, N, SIDE: tl.constexpr):
    m = tl.program_id(0) * SIDE + tl.arange(0, SIDE)
    n = tl.program_id(1) * SIDE + tl.arange(0, SIDE)
    inside = (m[:, None] < M) & (n[None, :] < N)
    values = tl.load(x + m[:, None] * N + n[None, :], mask=inside)
    tl.store(out + n[:, None] * M + m[None, :], tl.trans(values), mask=tl.trans(inside))
