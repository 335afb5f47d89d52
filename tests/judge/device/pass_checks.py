"""Each of the judge's own kernels against torch or plain arithmetic, on whatever device they are in use for."""

from __future__ import annotations

from collections.abc import Callable

import torch

from kernelwright.judge.contents import resemblance, resemble
from kernelwright.judge.correctness import FloatBound
from kernelwright.judge.device import passes
from kernelwright.judge.device.sealing import SealedBounds
from kernelwright.judge.inputs import WILD
from kernelwright.judge.integrity import Profile
from kernelwright.types import ToleranceRule

COUNT = 5003
"""No multiple of any width."""
FLOATS = (torch.float32, torch.float16, torch.bfloat16, torch.float64)
RULE = ToleranceRule()


def _bound(dtype: torch.dtype, device: torch.device, *, odd: bool, ill: bool) -> FloatBound:
    g = torch.Generator().manual_seed(3)
    truth = (torch.randn(COUNT, generator=g).double() * torch.exp2(torch.randint(-9, 9, (COUNT,), generator=g))).to(
        device
    )
    truth[:40] = 0.0
    own = truth.to(dtype, copy=True)
    if odd:
        own[50], own[51], truth[52] = torch.nan, torch.inf, -torch.inf
        own[52] = -torch.inf
    near = truth * (1.0 + 1e-7 * torch.randn(COUNT, generator=g).to(device))
    if ill:
        near[60:63] *= 1.01
    with device:
        return FloatBound("out", truth=truth, own=own, nearby=[near, near], rule=RULE, terms=8.0)


def check_sealing(device: torch.device) -> None:
    own = passes.of(torch.zeros(1, device=device))
    assert own
    for dtype in (torch.float64, torch.int16, torch.uint8):
        plain = torch.arange(COUNT, device=device).to(dtype)
        sealed = plain.clone()
        own.seal(sealed, 77)
        assert (sealed.view(torch.uint8) == plain.view(torch.uint8)).float().mean() < 0.02
        other = plain.clone()
        own.seal(other, 78)
        assert (sealed.view(torch.uint8) == other.view(torch.uint8)).float().mean() < 0.02
        own.seal(sealed, 77)
        assert torch.equal(sealed, plain)


def check_comparison_with_sealed_truth(dtype: torch.dtype, device: torch.device) -> None:
    """What is within its bounds passes with the same ratio, what is not does not; the truth stays sealed."""
    for odd, ill in ((False, False), (True, False), (False, True), (True, True)):
        bound = _bound(dtype, device, odd=odd, ill=ill)
        truth, allowed = bound.truth.clone(), bound.allowed.clone()
        right = truth.to(dtype, copy=True)
        near = (truth + 0.2 * allowed * torch.sign(truth)).to(dtype)
        if odd:  # as the reference
            right[50], right[51] = near[50], near[51] = torch.nan, torch.inf
        changes: list[Callable[[torch.Tensor], object]] = [
            lambda t, most=30.0 * float(allowed[4000]): t[4000].add_(most),  # type: ignore[misc]
            lambda t, most=30.0 * float(allowed[-1]): t[-1].add_(most),  # type: ignore[misc]
            lambda t: t[7].fill_(torch.nan),
            lambda t: t[8].fill_(-torch.inf),
            lambda t: t[9].fill_(1.0),
        ]
        if odd:
            changes += [lambda t: t[52].fill_(torch.inf), lambda t: t[52].fill_(1.0)]
        if ill:
            changes += [lambda t: t[61].mul_(3.0)]
        outputs = [right, near, *(right.clone() for _ in changes)]
        for change, output in zip(changes, outputs[2:], strict=True):
            change(output)
        with device:
            wanted = [bound.check(output) for output in outputs]
        assert [f.passed for f in wanted[2:]] == [False] * len(changes)
        sealed = SealedBounds([bound], device)
        found = [sealed.passed([output]) for output in outputs]
        assert (bound.truth == truth).float().mean() < 0.01
        for finding, ratio in zip(wanted, found, strict=True):
            if ratio is None:
                assert not finding.passed or finding.ratio > 0.99
            else:
                assert finding.passed
                assert abs(ratio - finding.ratio) <= 1e-4 * max(1.0, finding.ratio)
        assert found[0] is not None
        assert found[1] is not None
        with sealed as (opened,):
            assert isinstance(opened, FloatBound)
            assert torch.equal(opened.truth, truth)


def check_a_root_mean_square_beyond_its_bound(device: torch.device) -> None:
    """Every element within its own bound, all of them as far off as that allows."""
    bound = _bound(torch.float32, device, odd=False, ill=False)
    off = (bound.truth + 0.9 * bound.allowed).to(torch.float32)
    with device:
        assert not bound.check(off).passed
    assert SealedBounds([bound], device).passed([off]) is None


def check_pairs(device: torch.device) -> None:
    own = passes.of(torch.zeros(1, device=device))
    assert own
    for dtype, word in ((torch.uint8, 0xFF), (torch.int16, -1), (torch.int32, -1), (torch.int64, -1)):
        a = torch.zeros(COUNT, dtype=dtype, device=device)
        b = a.clone()
        assert own.pair(a, b).tolist() == [COUNT, 0]  # 0 is the pattern of both
        a[::7], b[::5] = word, int.from_bytes(bytes([0x5A] * dtype.itemsize), "little")
        left = len(range(0, COUNT, 35))
        assert own.pair(a, b, 0xFF, 0x5A)[0] == left
        assert own.pair(a, a, 0xFF, 0xFF).tolist() == [len(range(0, COUNT, 7)), 0]
        assert own.pair(a, b)[1] > 0
        changed = a.clone()
        changed[-1] ^= 1
        assert own.pair(a, changed)[1] == 1


def check_sums(device: torch.device) -> None:
    own = passes.of(torch.zeros(1, device=device))
    assert own
    store = torch.arange(8 * 5120, dtype=torch.int16, device=device)
    words = torch.as_strided(store, (8, COUNT), (5120, 1))
    before = own.sums(words, (5, 0, 3))
    assert torch.equal(before, own.sums(words, (5, 0, 3)))
    assert torch.equal(before[1:2], own.sums(words, (0,)))
    words[1, 3] += 1
    assert torch.equal(before, own.sums(words, (5, 0, 3)))
    for place in (0, COUNT // 2, COUNT - 1):
        words[3, place] ^= 1
        assert (before == own.sums(words, (5, 0, 3))).tolist() == [True, True, False]
        words[3, place] ^= 1
    words[0, 10], words[0, 11] = words[0, 11].clone(), words[0, 10].clone()
    assert before[1] != own.sums(words, (0,))[0]


def check_agreement(dtype: torch.dtype, device: torch.device) -> None:
    own = passes.of(torch.zeros(1, device=device))
    assert own
    bound = _bound(dtype, device, odd=True, ill=False)
    profile = Profile([bound])
    theirs = bound.truth.to(dtype, copy=True)
    theirs[50] = torch.nan
    g = torch.Generator().manual_seed(5)
    for size in (0.0, 0.5, 1.0, 1.4, 3.0):
        ours = (theirs.double() + size * bound.allowed * torch.randn(COUNT, generator=g).to(device)).to(dtype)
        apart = int(own.agree(ours, theirs, profile.allowed, lowest=profile.lowest)[0])
        assert profile.agrees(ours, theirs) == (apart == 0)
    ours = theirs.clone()
    for place, number in ((50, 1.0), (52, torch.inf), (60, torch.nan), (61, torch.inf)):
        ours = theirs.clone()
        ours[place] = number
        assert own.agree(ours, theirs, profile.allowed, lowest=profile.lowest).tolist() == [1]


def check_renewed_contents(dtype: torch.dtype, device: torch.device) -> None:
    own = passes.of(torch.zeros(1, device=device))
    assert own
    sources = [torch.full((COUNT,), value, dtype=dtype, device=device) for value in (1.0, -4.0, 0.0)]
    store = torch.full((4, 5120), 9.0, dtype=dtype, device=device)
    stack = torch.as_strided(store, (4, COUNT), (5120, 1))
    own.renew(stack, [3, 1], sources, [0, 1], [0.5, -0.3], limits=(None, None), key=5)
    assert bool((store[[0, 2]] == 9.0).all())
    assert bool((store[:, COUNT:] == 9.0).all())
    grown, shrunk = stack[3].double(), stack[1].double() / -4.0
    assert 1.0 <= float(grown.min()) < 1.01 < 1.49 < float(grown.max()) <= 1.5
    assert 0.69 < float(shrunk.min()) < 0.71 < 0.99 < float(shrunk.max()) <= 1.01
    assert abs(float(grown.mean()) - 1.25) < 0.01
    assert len(torch.unique(grown)) > 60  # a factor for each element
    first = stack[3].clone()
    own.renew(stack, [3, 1], sources, [0, 1], [0.5, -0.3], limits=(None, 1.25), key=6)
    assert not torch.equal(stack[3], first)
    assert float(stack[3].max()) == 1.25
    # What resembles another tensor: the same elements as through torch.
    other = torch.full((COUNT,), 2.0, dtype=dtype, device=device)
    other[5], other[6] = WILD, torch.nan
    for seed in range(12):
        kept = resemblance(COUNT, torch.Generator().manual_seed(seed))
        if kept is None:
            continue
        wanted = torch.zeros(COUNT, dtype=dtype, device=device)
        resemble(other, wanted, torch.Generator().manual_seed(seed))
        own.renew(stack, [2], sources, [2], [0.5], limits=(None, None), key=7, like=(other, *kept, WILD))
        assert torch.equal(stack[2], wanted)
        stack[2].copy_(other)
        own.renew(stack, [2], sources, [2], [0.5], limits=(None, None), key=7, like=(stack[2], *kept, WILD))
        assert torch.equal(stack[2], wanted)
