"""Evolution whose mutations are written by authors, language models above all: briefs out, drafts in.

Not here: prompts and providers (llm), money and storing (run).
"""

from kernelwright.search.authored.briefs import Brief, Draft, Exemplar, Write
from kernelwright.search.authored.evolution import Authored

__all__ = ["Authored", "Brief", "Draft", "Exemplar", "Write"]
