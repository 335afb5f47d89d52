"""Experts for GPUs: the loop nests of `experts.frame`, printed for thread blocks instead of vectors.

`cuda.py` prints CUDA C++. Not here: what is computed and which kernel computes it (experts/schedule.py, frame.py).
"""
