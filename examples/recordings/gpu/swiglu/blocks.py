# kernelwright-launch: swiglu grid=2752 BLOCK=1024 num_warps=4
import triton
import triton.language as tl


@triton.jit
def swiglu(gate, up, out, BLOCK: tl.constexpr):
    places = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    g = tl.load(gate + places)
    tl.store(out + places, g / (1.0 + tl.exp(-g)) * tl.load(up + places))
