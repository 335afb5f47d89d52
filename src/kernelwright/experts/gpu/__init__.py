"""Experts for GPUs: the loop nests of `experts.frame`, printed for thread blocks or tiles instead of vectors.

`cuda.py` prints CUDA C++ (printer.py, kernel.py); `triton.py` and `cutile.py` print tiles of the two languages
(tile_printer.py, tile_kernel.py, and a dialect each). Not here: what is computed and which kernel computes it
(experts/schedule.py, frame.py).
"""
