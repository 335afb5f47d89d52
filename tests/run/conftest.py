import sys
from pathlib import Path

# The fakes live beside the strategies' suite.
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "search"))
