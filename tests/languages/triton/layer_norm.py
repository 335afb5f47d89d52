# Layer norm over the last dimension; the loop bound is an argument.
# kernelwright-launch: layer_norm grid=16 columns=150 eps=1e-5 TILE=64
import triton
import triton.language as tl


@triton.jit
def layer_norm(x, weight, bias, out, columns, eps, TILE: tl.constexpr):
    row = tl.program_id(0)
    total = tl.zeros((TILE,), tl.float32)
    for start in range(0, columns, TILE):
        offsets = start + tl.arange(0, TILE)
        total += tl.load(x + row * columns + offsets, mask=offsets < columns, other=0.0)
    mean = tl.sum(total, axis=0) / columns
    squares = tl.zeros((TILE,), tl.float32)
    for start in range(0, columns, TILE):
        offsets = start + tl.arange(0, TILE)
        value = tl.load(x + row * columns + offsets, mask=offsets < columns, other=0.0)
        centred = tl.where(offsets < columns, value - mean, 0.0)
        squares += centred * centred
    rstd = 1 / tl.sqrt(tl.sum(squares, axis=0) / columns + eps)
    for start in range(0, columns, TILE):
        offsets = start + tl.arange(0, TILE)
        inside = offsets < columns
        value = tl.load(x + row * columns + offsets, mask=inside, other=0.0)
        w = tl.load(weight + offsets, mask=inside)
        b = tl.load(bias + offsets, mask=inside)
        tl.store(out + row * columns + offsets, (value - mean) * rstd * w + b, mask=inside)
