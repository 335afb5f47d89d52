# bfloat16 product: what Triton 3.6's interpreter gets wrong by itself.
# kernelwright-launch: matmul grid=2,2 BM=16 BN=16 K=32 N=32
import triton
import triton.language as tl


@triton.jit
def matmul(x, y, out, BM: tl.constexpr, BN: tl.constexpr, K: tl.constexpr, N: tl.constexpr):
    m = tl.program_id(0) * BM + tl.arange(0, BM)
    n = tl.program_id(1) * BN + tl.arange(0, BN)
    k = tl.arange(0, K)
    acc = tl.dot(tl.load(x + m[:, None] * K + k[None, :]), tl.load(y + k[:, None] * N + n[None, :]))
    tl.store(out + m[:, None] * N + n[None, :], acc)
