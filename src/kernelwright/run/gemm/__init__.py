"""Finding the fastest schedule of matrix products on a device: binaries, measuring that survives faults, grids.

Not here: the kernels (experts/gemm) and the process that holds the device (judge/device/products).
"""
