# The place of the largest value of each row.
# kernelwright-launch: argmax grid=20 COLUMNS=64
import cuda.tile as ct


@ct.kernel
def argmax(x, out, COLUMNS: ct.Constant[int]):
    row = ct.bid(0)
    tile = ct.load(x, (row, 0), shape=(1, COLUMNS), padding_mode=ct.PaddingMode.NEG_INF)
    ct.store(out, (row,), tile=ct.argmax(tile, axis=1))
