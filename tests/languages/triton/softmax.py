# Softmax of each row; the row stride is an argument that equals 1, which Triton drops from the parameters.
# kernelwright-launch: softmax grid=24 columns=100 step=1 COLUMNS=128 num_warps=2
import triton
import triton.language as tl


@triton.jit
def softmax(x, out, columns, step, COLUMNS: tl.constexpr):
    row = tl.program_id(0)
    offsets = tl.arange(0, COLUMNS)
    inside = offsets < columns
    values = tl.load(x + row * columns + offsets * step, mask=inside, other=float("-inf"))
    powers = tl.exp(values - tl.max(values, axis=0))
    tl.store(out + row * columns + offsets * step, powers / tl.sum(powers, axis=0), mask=inside)
