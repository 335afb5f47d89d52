"""The models that learn, in a worker process: a small one that chooses schedules, and a code model.

Everything here may import torch; the parent starts `worker.py` by name and imports nothing of it.
"""
