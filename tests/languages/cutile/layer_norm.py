# Layer norm over the last dimension in two passes over tiles.
# kernelwright-launch: layer_norm grid=16 eps=1e-5 TILE=64
import cuda.tile as ct


@ct.kernel
def layer_norm(x, weight, bias, out, eps, TILE: ct.Constant[int]):
    row = ct.bid(0)
    columns = x.shape[1]
    count = ct.num_tiles(x, axis=1, shape=(1, TILE))
    total = ct.zeros((1, TILE), dtype=ct.float32)
    for j in range(count):
        total = total + ct.load(x, (row, j), shape=(1, TILE), padding_mode=ct.PaddingMode.ZERO)
    mean = ct.sum(total, axis=1, keepdims=True) / columns
    squares = ct.zeros((1, TILE), dtype=ct.float32)
    for j in range(count):
        tile = ct.load(x, (row, j), shape=(1, TILE), padding_mode=ct.PaddingMode.ZERO)
        inside = j * TILE + ct.arange(TILE, dtype=ct.int32) < columns
        centred = ct.where(inside[None, :], tile - mean, 0.0)
        squares = squares + centred * centred
    rstd = ct.rsqrt(ct.sum(squares, axis=1, keepdims=True) / columns + eps)
    for j in range(count):
        tile = ct.load(x, (row, j), shape=(1, TILE), padding_mode=ct.PaddingMode.ZERO)
        w = ct.load(weight, (j,), shape=(TILE,), padding_mode=ct.PaddingMode.ZERO)
        b = ct.load(bias, (j,), shape=(TILE,), padding_mode=ct.PaddingMode.ZERO)
        ct.store(out, (row, j), tile=(tile - mean) * rstd * w[None, :] + b[None, :])
