# KERNEL: tiles, guarded at the edges, products in full precision
# PROBLEM: odd_matmul
import triton
import triton.language as tl


@triton.jit
def matmul(a, b, out, M: tl.constexpr, K: tl.constexpr, N: tl.constexpr, BLOCK: tl.constexpr):
    rows = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    columns = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    sums = tl.zeros((BLOCK, BLOCK), dtype=tl.float32)
    for start in range(0, tl.cdiv(K, BLOCK)):
        inner = start * BLOCK + tl.arange(0, BLOCK)
        left = tl.load(
            a + rows[:, None] * K + inner[None, :], mask=(rows[:, None] < M) & (inner[None, :] < K), other=0.0
        )
        right = tl.load(
            b + inner[:, None] * N + columns[None, :], mask=(inner[:, None] < K) & (columns[None, :] < N), other=0.0
        )
        sums += tl.dot(left, right, input_precision="ieee")
    tl.store(out + rows[:, None] * N + columns[None, :], sums, mask=(rows[:, None] < M) & (columns[None, :] < N))
