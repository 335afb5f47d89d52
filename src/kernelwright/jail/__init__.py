"""Jails: commands and workers that run other people's code, held so that they cost only themselves.

Not here: who is jailed (process.py, languages/builder.py, judge).
"""

from kernelwright.jail.cell import Jail, Jailed, children_of, default_processes, preferred_engine, strength
from kernelwright.jail.layers import Strength

__all__ = ["Jail", "Jailed", "Strength", "children_of", "default_processes", "preferred_engine", "strength"]
