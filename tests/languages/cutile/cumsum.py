# Running sums along each row.
# kernelwright-launch: cumsum grid=ceil_div(12,4) ROWS=4 COLUMNS=64
import cuda.tile as ct


@ct.kernel
def cumsum(x, out, ROWS: ct.Constant[int], COLUMNS: ct.Constant[int]):
    i = ct.bid(0)
    tile = ct.load(x, (i, 0), shape=(ROWS, COLUMNS), padding_mode=ct.PaddingMode.ZERO)
    ct.store(out, (i, 0), tile=ct.cumsum(tile, axis=1))
