# kernelwright-workspace: losses float 64
# kernelwright-launch: row_losses grid=64 COLUMNS=50257 BLOCK=8192 num_warps=8
# kernelwright-launch: mean_loss grid=1 TOKENS=64 num_warps=1
import triton
import triton.language as tl


@triton.jit
def row_losses(logits, targets, losses, COLUMNS: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    top = tl.full((BLOCK,), float("-inf"), tl.float32)
    for start in range(0, COLUMNS, BLOCK):
        places = start + tl.arange(0, BLOCK)
        values = tl.load(logits + row * COLUMNS + places, mask=places < COLUMNS, other=float("-inf"))
        top = tl.maximum(top, values)
    most = tl.max(top, axis=0)
    total = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, COLUMNS, BLOCK):
        places = start + tl.arange(0, BLOCK)
        values = tl.load(logits + row * COLUMNS + places, mask=places < COLUMNS, other=0.0)
        total += tl.exp(values - most)
    said = tl.load(logits + row * COLUMNS + tl.load(targets + row))
    tl.store(losses + row, tl.log(tl.sum(total, axis=0)) + most - said)


@triton.jit
def mean_loss(losses, out, TOKENS: tl.constexpr):
    tl.store(out, tl.sum(tl.load(losses + tl.arange(0, TOKENS)), axis=0) / TOKENS)
