"""benchmarks/reviewer.py: its figures by hand, and that the page says what the command finds."""

from __future__ import annotations

from tools.reviewer_data import Kernel, by_log_odds, held_out

from benchmarks import reviewer


def kernel(name: str, *, cheats: bool) -> Kernel:
    return Kernel(
        name=name, folder="cheats" if cheats else "honest", language="cpp", family="sum",
        kind="faults" if cheats else "", deceives=cheats, text="", traits=(),
    )  # fmt: skip


def test_area_and_curve_are_what_one_counts_by_hand() -> None:
    scores = {kernel(f"c{s}", cheats=True): s for s in (4.0, 2.0, 0.5)}
    scores |= {kernel(f"h{s}", cheats=False): s for s in (3.0, 2.0, 1.0, 0.0)}
    cheats, honest = reviewer.sides(scores, "C++")
    assert (len(cheats), len(honest)) == (3, 4)
    # Pairs won: 4 of 4, 2 and a half of 4, 1 of 4.
    assert reviewer.area(scores, "C++") == 7.5 / 12
    # At 0 % above 3.0; at 20 % of four no alarm is allowed either; at 50 % above 1.0.
    assert reviewer.curve(scores, cheats, honest) == [1, 1, 1, 1, 1, 2]


def test_regression_learns_what_separates_and_nothing_of_what_is_rare() -> None:
    some = [kernel(f"c{n}", cheats=True) for n in range(6)] + [kernel(f"h{n}", cheats=False) for n in range(6)]
    held = {k: frozenset({"clock"} if k.kind else {"loop"}) | {k.name} for k in some}
    score = reviewer.by_regression(some, held.__getitem__)
    assert all(score(k) > 0.5 for k in some if k.kind)
    assert all(score(k) < -0.5 for k in some if not k.kind)


def test_the_page_says_what_the_command_finds() -> None:
    scores = held_out(by_log_odds)
    page = reviewer.PAGE.read_text()
    for name in reviewer.SETS:
        cheats, honest = reviewer.sides(scores, name)
        shares = " | ".join(f"{count / len(cheats):.0%}" for count in reviewer.curve(scores, cheats, honest))
        line = f"| classifier | {name} | {reviewer.area(scores, name):.2f} | {len(cheats)} | {shares} |"
        assert line in page, "run `python benchmarks/reviewer.py` again"
