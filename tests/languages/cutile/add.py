# out = x + y, any length.
# kernelwright-launch: add grid=ceil_div(1000,128) BLOCK=128
import cuda.tile as ct


@ct.kernel
def add(x, y, out, BLOCK: ct.Constant[int]):
    i = ct.bid(0)
    a = ct.load(x, (i,), shape=(BLOCK,))
    b = ct.load(y, (i,), shape=(BLOCK,))
    ct.store(out, (i,), tile=a + b)
