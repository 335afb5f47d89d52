# The largest value of all, in two kernels and a workspace.
# kernelwright-workspace: partial float 8
# kernelwright-launch: first grid=8 BLOCK=64
# kernelwright-launch: second grid=1 COUNT=8
import cuda.tile as ct


@ct.kernel
def first(x, partial, BLOCK: ct.Constant[int]):
    i = ct.bid(0)
    tile = ct.load(x, (i,), shape=(BLOCK,), padding_mode=ct.PaddingMode.NEG_INF)
    ct.store(partial, (i,), tile=ct.max(tile, keepdims=True))


@ct.kernel
def second(partial, out, COUNT: ct.Constant[int]):
    ct.store(out, (0,), tile=ct.max(ct.load(partial, (0,), shape=(COUNT,)), keepdims=True))
