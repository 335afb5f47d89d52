# out = x.T
# kernelwright-launch: transpose grid=ceil_div(50,16),ceil_div(70,16) SIDE=16
import cuda.tile as ct


@ct.kernel
def transpose(x, out, SIDE: ct.Constant[int]):
    i, j = ct.bid(0), ct.bid(1)
    tile = ct.load(x, (i, j), shape=(SIDE, SIDE), padding_mode=ct.PaddingMode.ZERO)
    ct.store(out, (j, i), tile=ct.transpose(tile))
