# kernelwright-launch: layer_norm grid=4096 eps=1e-12 COLUMNS=768 BLOCK=1024 num_warps=4
import triton
import triton.language as tl


@triton.jit
def layer_norm(x, norm_weight, norm_bias, out, eps, COLUMNS: tl.constexpr, BLOCK: tl.constexpr):
    places = tl.arange(0, BLOCK)
    inside = places < COLUMNS
    values = tl.load(x + tl.program_id(0) * COLUMNS + places, mask=inside, other=0.0)
    mean = tl.sum(values, axis=0) / COLUMNS
    centred = tl.where(inside, values - mean, 0.0)
    scale = 1.0 / tl.sqrt(tl.sum(centred * centred, axis=0) / COLUMNS + eps)
    w = tl.load(norm_weight + places, mask=inside)
    b = tl.load(norm_bias + places, mask=inside)
    tl.store(out + tl.program_id(0) * COLUMNS + places, centred * scale * w + b, mask=inside)
