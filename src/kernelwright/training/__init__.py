"""Authors that learn: a corpus of verified kernels, the judge's reward, and three stages of training.

The parent's modules load no framework; models live in worker processes (training/models).
Not here: who is asked in a run (run/authoring), and who judges (judge).
"""
