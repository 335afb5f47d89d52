"""Fresh contents for the slots before each timed round, made on the device for all slots at once.

As contents.Refresher on the CPU: a slot gets one of a few draws of the reference's own inputs with every
element of a free tensor multiplied by a factor of its own; some slots hold a few wild elements, or a NaN, and some
equal the slot called before them but for a part. Integers and masks are mixed anew (structured.Mixer). Parameters
change as a whole and in part by turns.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from kernelwright.judge.contents import AnyRefresher, resemblance
from kernelwright.judge.device import passes
from kernelwright.judge.inputs import WILD, is_limited
from kernelwright.types import TensorSpec

ALIKE = "alike"
"""The kind of a slot that equals the one called before it but for a part."""
MOST_ALIKE = 4
LARGEST_CHUNK = 1 << 26
"""Elements that are made at once, which bounds the memory for it."""


class DeviceRefresher(AnyRefresher):
    """Writes contents that no earlier call has seen into stacked slots."""

    def __init__(
        self,
        specs: Sequence[TensorSpec],
        draws: Sequence[Sequence[torch.Tensor]],
        parameters: Sequence[torch.Tensor],
        seed: int,
    ) -> None:
        super().__init__(specs, draws, parameters, seed)
        device = next((t.device for t in (*draws[0], *parameters)), torch.device("cpu"))
        self._device = torch.Generator(device).manual_seed(seed + 1)
        self._alone = -1
        self.mixer = self.mixer.to(device)

    def renew(self, tensors: Sequence[torch.Tensor]) -> tuple[torch.Tensor, ...]:
        """Returns tensors like these with fresh contents."""
        stacks = [t.unsqueeze(0).clone() for t in tensors]
        self.refresh(stacks, [0])
        return tuple(stack[0] for stack in stacks)

    def refresh(self, stacks: Sequence[torch.Tensor], slots: Sequence[int]) -> list[str]:
        """Writes fresh contents into some slots of the stacked inputs; returns what kind each slot is now."""
        which = torch.randint(0, len(self._draws), (len(slots),), generator=self._rng).tolist()
        kinds = self._kinds(len(slots))
        own = self._own_passes(stacks)
        # Where a round has one call, the call before it was on the same slot.
        again = list(slots) == [self._alone]
        before = [stack[slots[0]].clone() for stack in stacks] if again and not own else []
        self._alone = slots[0] if len(slots) == 1 else -1
        filled = [i for i, stack in enumerate(stacks) if stack[0].numel()]
        whole = self._whole([i for i in filled if self._free[i]]) if again and own else -1
        for index in filled:
            if own and self._free[index]:
                if index != whole:
                    self._renew(own, index, stacks[index], slots, which, again=again)
            else:
                self._fill(index, self._specs[index], stacks[index], slots, which)
        if before:
            self._make_alike(before, [stack[slots[0]] for stack in stacks])
        for place in self._alike(kinds):
            kinds[place] = ALIKE
            self._make_alike([s[slots[place - 1]] for s in stacks], [s[slots[place]] for s in stacks])
        marked = self.marked
        for kind in ("wild", "nan"):
            rows = [slot for slot, found in zip(slots, kinds, strict=True) if found == kind]
            if rows and marked and (kind == "nan" or self.wild):
                self._mark(kind, [stacks[i] for i in marked], rows)
        return [k if k == ALIKE or (marked and (k != "wild" or self.wild)) else "plain" for k in kinds]

    def _own_passes(self, stacks: Sequence[torch.Tensor]) -> passes.Passes | None:
        """Returns the kernels that renew these stacks, None where a tensor of free numbers is not for them."""
        several = [i for i, free in enumerate(self._free) if free and stacks[i][0].numel()]
        if not several or any(stacks[i].dtype not in passes.KINDS for i in several):
            return None
        return passes.of(*(stacks[i][0] for i in several), *(draw[i] for draw in self._draws for i in several))

    def _alike(self, kinds: Sequence[str]) -> list[int]:
        """Returns a few positions, in their order, of plain slots that have one before them."""
        plain = [place for place, kind in enumerate(kinds) if kind == "plain" and place and any(self._free)]
        return sorted(plain[i] for i in torch.randperm(len(plain), generator=self._rng).tolist()[:MOST_ALIKE])

    def _renew(
        self,
        own: passes.Passes,
        index: int,
        stack: torch.Tensor,
        slots: Sequence[int],
        which: Sequence[int],
        *,
        again: bool,
    ) -> None:
        """Does what `_fill` does in one pass; a slot that is called again keeps a part of what it holds."""
        spec, row = self._specs[index], stack[slots[0]]
        kept = resemblance(row.numel(), self._rng) if again else None
        own.renew(
            stack,
            slots,
            [draw[index] for draw in self._draws],
            which,
            (2.0 * self._changes(len(slots), only_less=is_limited(spec))).tolist(),
            limits=(spec.low, spec.high),
            key=self._key(),
            like=(row, *kept, WILD) if kept else None,
        )
        flat = stack.view(len(stack), -1)
        rows = torch.tensor(list(slots), device=stack.device)[:, None]
        places = torch.randint(0, flat.shape[1], (2, 4), generator=self._rng).to(flat.device)
        flat[rows, places[0]] = flat[rows, places[1]]

    def _key(self) -> int:
        return 1 + int(torch.randint(0, 1 << 62, (), generator=self._rng))

    def _resemble(self, other: torch.Tensor, tensor: torch.Tensor) -> None:
        own = passes.of(other, tensor)
        if own is None or tensor.dtype not in passes.KINDS:
            super()._resemble(other, tensor)
        elif kept := resemblance(tensor.numel(), self._rng):
            like = (other, *kept, WILD)
            stack = tensor.unsqueeze(0)
            own.renew(stack, [0], [tensor], [0], [0.0], limits=(None, None), key=self._key(), like=like)

    def _fill(
        self, index: int, spec: TensorSpec, stack: torch.Tensor, slots: Sequence[int], which: Sequence[int]
    ) -> None:
        if not self._free[index]:
            for slot, chosen_draw in zip(slots, which, strict=True):
                self.mixer.write(index, chosen_draw, stack[slot])
            return
        each = stack[0].numel()
        step = max(1, LARGEST_CHUNK // each)
        draws = [draw[index] for draw in self._draws]
        if step == 1:
            for slot, chosen_draw in zip(slots, which, strict=True):
                self._vary_one(draws[chosen_draw], stack[slot], spec)
            return
        for start in range(0, len(slots), step):
            rows, chosen = slots[start : start + step], which[start : start + step]
            fresh = torch.stack([draws[i] for i in chosen])
            self._vary(fresh, only_less=is_limited(spec))
            if is_limited(spec):
                fresh.clamp_(min=spec.low, max=spec.high)
            stack.index_copy_(0, torch.tensor(rows, device=stack.device), fresh)

    def _vary_one(self, source: torch.Tensor, into: torch.Tensor, spec: TensorSpec) -> None:
        """Does what `_vary` does to one large tensor, with as few passes over memory as that takes."""
        (change,) = self._changes(1, only_less=is_limited(spec)).tolist()
        ends = sorted((1.0, 1.0 + 2.0 * change))
        factors = torch.empty_like(into, dtype=torch.float32).uniform_(*ends, generator=self._device)
        torch.mul(source, factors, out=into)
        if is_limited(spec):
            into.clamp_(min=spec.low, max=spec.high)
        flat = into.view(-1)
        places = torch.randint(0, len(flat), (8,), generator=self._rng).to(flat.device)
        flat[places[:4]] = flat[places[4:]]

    def _changes(self, count: int, *, only_less: bool) -> torch.Tensor:
        sizes = 0.1 + 0.15 * torch.rand(count, generator=self._rng)
        signs = torch.where(torch.rand(count, generator=self._rng) < 0.5, -1.0, 1.0)
        return -sizes if only_less else sizes * signs

    def _vary(self, fresh: torch.Tensor, *, only_less: bool) -> None:
        """Multiplies every element by between 0.5 and 1.5 (at most 1 where it may not grow); exchanges a few."""
        count = len(fresh)
        change = self._changes(count, only_less=only_less).to(fresh.device, fresh.dtype)
        noise = torch.rand(fresh.shape, generator=self._device, device=fresh.device, dtype=torch.float32).to(
            fresh.dtype
        )
        factors = noise.mul_(change.view(-1, *(1,) * (fresh.dim() - 1))).mul_(2.0).add_(1.0)
        fresh.mul_(factors)
        flat = fresh.view(count, -1)
        places = torch.randint(0, flat.shape[1], (8,), generator=self._rng).to(fresh.device)
        flat[:, places[:4]] = flat[:, places[4:]]

    def _mark(self, kind: str, stacks: Sequence[torch.Tensor], rows: Sequence[int]) -> None:
        """Puts wild elements into some tensors of some slots, or a NaN into one of them."""
        chosen = torch.randperm(len(stacks), generator=self._rng).tolist()
        at = torch.tensor(rows, device=stacks[0].device)
        for stack in [stacks[i] for i in chosen[: 1 if kind == "nan" else (len(chosen) + 1) // 2]]:
            for value in (float("nan"),) if kind == "nan" else (WILD, WILD, -WILD, -WILD):
                places = torch.randint(0, stack[0].numel(), (len(rows),), generator=self._rng)
                # numpy's: torch's own imports its compiler first, which takes seconds.
                index = np.unravel_index(places.numpy(), tuple(stack.shape[1:])) if stack.dim() > 1 else ()
                stack[(at, *(torch.from_numpy(part).to(stack.device) for part in index))] = value

    def _varied(self, source: torch.Tensor) -> torch.Tensor:
        fresh = source.clone().unsqueeze(0)
        self._vary(fresh, only_less=False)
        return fresh[0]
