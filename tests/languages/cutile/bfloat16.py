# out = x * y + x in bfloat16, computed in float32.
# kernelwright-launch: fused grid=ceil_div(300,64) BLOCK=64
import cuda.tile as ct


@ct.kernel
def fused(x, y, out, BLOCK: ct.Constant[int]):
    i = ct.bid(0)
    a = ct.load(x, (i,), shape=(BLOCK,)).astype(ct.float32)
    b = ct.load(y, (i,), shape=(BLOCK,)).astype(ct.float32)
    ct.store(out, (i,), tile=(a * b + a).astype(ct.bfloat16))
