"""The gym: the judge as an environment for reinforcement learning, for whoever trains with a stack of their own.

A trainer asks for problems and guides, submits kernels and gets verdicts and rewards, over HTTP (server.py) or through
an environment package for the verifiers library (package.py). One judge serves all clients, one kernel at a time:
two would disturb each other's times.
Not here: what a record is worth (training/reward.py).
"""

from __future__ import annotations

from kernelwright.gym.judging import Gym, GymSettings
from kernelwright.gym.requests import Refused, Submission

__all__ = ["Gym", "GymSettings", "Refused", "Submission"]
