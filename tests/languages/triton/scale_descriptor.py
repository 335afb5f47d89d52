# out = 2 x through descriptors that the kernel makes itself, which needs memory for every block.
# kernelwright-launch: scale grid=4 M=64 N=64 SIDE=16
import triton
import triton.language as tl


@triton.jit
def scale(x, out, M, N: tl.constexpr, SIDE: tl.constexpr):
    source = tl.make_tensor_descriptor(x, [M, N], [N, 1], [SIDE, N])
    target = tl.make_tensor_descriptor(out, [M, N], [N, 1], [SIDE, N])
    row = tl.program_id(0) * SIDE
    target.store([row, 0], source.load([row, 0]) * 2)
