# float16 product through tensor descriptors that the host makes: TMA from sm_90 on, plain loads before.
# kernelwright-tensor-map: x_map of=x shape=64,64 strides=128 box=32,32
# kernelwright-tensor-map: y_map of=y shape=32,64 strides=64 box=32,32
# kernelwright-tensor-map: out_map of=out shape=32,64 strides=64 box=32,32
# kernelwright-launch: matmul grid=2 K=64 SIDE=32
import triton
import triton.language as tl


@triton.jit
def matmul(x_map, y_map, out_map, K, SIDE: tl.constexpr):
    m = tl.program_id(0) * SIDE
    acc = tl.zeros((SIDE, SIDE), tl.float32)
    for k in range(0, K, SIDE):
        acc = tl.dot(x_map.load([m, k]), y_map.load([k, 0]), acc)
    out_map.store([m, 0], acc.to(tl.float16))
