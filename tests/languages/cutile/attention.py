# One head of attention with a running softmax: no score leaves the tiles.
# kernelwright-launch: attention grid=2 scale=0.17677669529663687 TQ=16 TK=16 D=32
import cuda.tile as ct


@ct.kernel
def attention(q, k, v, out, scale, TQ: ct.Constant[int], TK: ct.Constant[int], D: ct.Constant[int]):
    i = ct.bid(0)
    queries = ct.load(q, (i, 0), shape=(TQ, D))
    top = ct.full((TQ, 1), -1e30, dtype=ct.float32)
    total = ct.zeros((TQ, 1), dtype=ct.float32)
    acc = ct.zeros((TQ, D), dtype=ct.float32)
    for j in range(ct.num_tiles(k, axis=0, shape=(TK, D))):
        keys = ct.load(k, (j, 0), shape=(TK, D))
        values = ct.load(v, (j, 0), shape=(TK, D))
        scores = ct.mma(queries, ct.transpose(keys), ct.zeros((TQ, TK), dtype=ct.float32)) * scale
        new_top = ct.maximum(top, ct.max(scores, axis=1, keepdims=True))
        powers = ct.exp(scores - new_top)
        shrink = ct.exp(top - new_top)
        total = total * shrink + ct.sum(powers, axis=1, keepdims=True)
        acc = ct.mma(powers.astype(ct.float16), values, acc * shrink)
        top = new_top
    ct.store(out, (i, 0), tile=acc / total)
