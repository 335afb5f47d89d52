"""Models as authors inside a run: briefs become prompts, prompts replies, replies candidates, within a budget.

Not here: which brief is due (search/authored), what a provider speaks (llm), and who judges (judge).
"""

from kernelwright.run.models.authors import Authors
from kernelwright.run.models.spending import Budget, Ledger
from kernelwright.run.models.writing import Writer

__all__ = ["Authors", "Budget", "Ledger", "Writer"]
