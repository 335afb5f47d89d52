# float16 product with a float32 accumulator; ragged edges read as zero.
# kernelwright-launch: matmul grid=ceil_div(100,32),ceil_div(48,32) TM=32 TN=32 TK=16
import cuda.tile as ct


@ct.kernel
def matmul(x, y, out, TM: ct.Constant[int], TN: ct.Constant[int], TK: ct.Constant[int]):
    m, n = ct.bid(0), ct.bid(1)
    acc = ct.zeros((TM, TN), dtype=ct.float32)
    for k in range(ct.num_tiles(x, axis=1, shape=(TM, TK))):
        a = ct.load(x, (m, k), shape=(TM, TK), padding_mode=ct.PaddingMode.ZERO)
        b = ct.load(y, (k, n), shape=(TK, TN), padding_mode=ct.PaddingMode.ZERO)
        acc = ct.mma(a, b, acc)
    ct.store(out, (m, n), tile=acc.astype(out.dtype))
