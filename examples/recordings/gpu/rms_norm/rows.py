# kernelwright-launch: rms_norm grid=512 eps=1e-5 COLUMNS=4096 num_warps=8
import triton
import triton.language as tl


@triton.jit
def rms_norm(hidden_states, weight, out, eps, COLUMNS: tl.constexpr):
    places = tl.arange(0, COLUMNS)
    values = tl.load(hidden_states + tl.program_id(0) * COLUMNS + places)
    scale = 1.0 / tl.sqrt(tl.sum(values * values, axis=0) / COLUMNS + eps)
    tl.store(out + tl.program_id(0) * COLUMNS + places, tl.load(weight + places) * (values * scale))
