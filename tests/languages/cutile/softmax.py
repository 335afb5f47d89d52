# Softmax of each row, in one tile; what lies beyond the row reads as minus infinity.
# kernelwright-launch: softmax grid=24 COLUMNS=128
import cuda.tile as ct


@ct.kernel
def softmax(x, out, COLUMNS: ct.Constant[int]):
    row = ct.bid(0)
    values = ct.load(x, (row, 0), shape=(1, COLUMNS), padding_mode=ct.PaddingMode.NEG_INF)
    top = ct.max(values, axis=1, keepdims=True)
    powers = ct.exp(values - top)
    ct.store(out, (row, 0), tile=powers / ct.sum(powers, axis=1, keepdims=True))
