# KERNEL: a cuTile program for each batch, over tiles of the middle axis
# PROBLEM: batch_reduce
import cuda.tile as ct


@ct.kernel
def batch_reduce(x, out, tiles: ct.Constant[int], T: ct.Constant[int]):
    b = ct.bid(0)
    sums = ct.zeros((1, 32), dtype=ct.float32)
    for k in range(0, tiles):
        part = ct.load(x, index=(b, k, 0), shape=(1, T, 32), padding_mode=ct.PaddingMode.ZERO)
        sums += ct.sum(part, axis=1)
    ct.store(out, index=(b, 0), tile=sums)
