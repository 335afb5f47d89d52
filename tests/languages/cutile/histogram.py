# Counts of 16 bins; the counts start from zero.
# kernelwright-memset: out byte=0
# kernelwright-launch: histogram grid=ceil_div(500,64) BLOCK=64
import cuda.tile as ct


@ct.kernel
def histogram(x, out, BLOCK: ct.Constant[int]):
    places = ct.bid(0) * BLOCK + ct.arange(BLOCK, dtype=ct.int32)
    bins = ct.gather(x, places, padding_value=-1)
    ct.atomic_add(out, bins, 1)
