"""Writes src/kernelwright/hacks/corpus.jsonl.gz: what is known of every cheat in tests/, without its text.

    python tools/hacks_data.py
    python tools/hacks_data.py --score     # how often a kernel resembles a hack, each left out of what is known

A test compares the file with the corpus, so run this when a cheat or an honest kernel comes or changes.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "src"))

from kernelwright.hacks import BUNDLED, Hack, HackBook, idioms, packed  # noqa: E402
from kernelwright.search.authored.novelty import normalised  # noqa: E402

CHEATS = {"cheats": "cpp", "cheats_cuda": "cuda", "cheats_python": "python"}
HONEST = (
    "honest", "honest_cuda", "honest_python", "languages/honest", "languages/cuda", "languages/triton",
    "mutants/kernels",
)  # fmt: skip
LANGUAGES = {".cpp": "cpp", ".cu": "cuda"}
SUFFIXES = (".cpp", ".cu", ".py")
HEAD = re.compile(r"^(?://|#) ([A-Z ]+): (.*)$", re.MULTILINE)
HEADER = re.compile(r'#include "(\w+\.h)"')


def text_of(path: Path) -> str:
    """Returns a kernel file with the headers that lie beside it, without the lines that describe it."""
    text = path.read_text()
    near = [path.parent / name for name in HEADER.findall(text)]
    return HEAD.sub("", "\n".join([text, *(header.read_text() for header in near if header.exists())]))


def hack_of(path: Path, language: str) -> Hack:
    """Returns what is known of a cheat."""
    head: dict[str, str] = {}
    for key, said in HEAD.findall(path.read_text()):
        head.setdefault(key, said.strip())
    text = text_of(path)
    return Hack(
        name=path.stem, language=language, trick=head["TRICK"], problem=head.get("PROBLEM", "softmax"),
        caught_by=tuple(word.strip() for word in head["CAUGHT BY"].split("|")), origin=path.parent.name,
        idioms=idioms(text), source=normalised(text),
    )  # fmt: skip


def kernels(folder: str) -> list[Path]:
    """Returns the kernel files of a folder of the tests."""
    return sorted(path for path in (ROOT / "tests" / folder).iterdir() if path.suffix in SUFFIXES)


def book() -> HackBook:
    """Returns the corpus as a book."""
    hacks = [hack_of(path, language) for folder, language in CHEATS.items() for path in kernels(folder)]
    return HackBook(hacks, [normalised(text_of(path)) for folder in HONEST for path in kernels(folder)])


def score(every: int = 1) -> tuple[int, int, int, int]:
    """Returns (honest kernels suspected, of how many, cheats suspected, of how many), each one left out;
    of every so many."""
    known = book()
    honest = [path for folder in HONEST for path in kernels(folder)]
    texts = [normalised(text_of(path)) for path in honest]
    languages = [LANGUAGES.get(path.suffix, "python" if "python" in str(path) else "triton") for path in honest]
    suspected = 0
    for place, path in list(enumerate(honest))[::every]:
        others = HackBook(known.hacks, texts[:place] + texts[place + 1 :])
        suspected += bool(others.resembling(text_of(path), language=languages[place]))
    cheats = [(path, language) for folder, language in CHEATS.items() for path in kernels(folder)]
    caught = deceiving = 0
    for place, (path, language) in list(enumerate(cheats))[::every]:
        if known.hacks[place].deceives:
            others = HackBook(known.hacks[:place] + known.hacks[place + 1 :], texts)
            deceiving += 1
            caught += bool(others.resembling(text_of(path), language=language))
    return suspected, len(honest[::every]), caught, deceiving


if __name__ == "__main__":
    if "--score" in sys.argv:
        print("suspected: {} of {} honest kernels, {} of {} cheats that more than values catch".format(*score()))
        sys.exit()
    BUNDLED.write_bytes(packed(book()))
    print(f"{BUNDLED.relative_to(ROOT)}: {len(book().hacks)} hacks, {BUNDLED.stat().st_size:,} bytes")
