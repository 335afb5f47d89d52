"""The judge on a GPU: one worker process for each device, and what its parent needs to know of it.

`pool.py` is the parent's side and imports no framework. Everything else runs in the worker
(`worker.py`), except `replay.py`, which runs under the vendor's memory checker. What is common to CPU
and GPU (families, truth, bounds, statistics) stays in the package above.
"""
