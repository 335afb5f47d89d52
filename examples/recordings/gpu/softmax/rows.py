# kernelwright-launch: softmax grid=8192 COLUMNS=512 num_warps=4
import triton
import triton.language as tl


@triton.jit
def softmax(scores, out, COLUMNS: tl.constexpr):
    places = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    values = tl.load(scores + places)
    powers = tl.exp(values - tl.max(values, axis=0))
    tl.store(out + places, powers / tl.sum(powers, axis=0))
