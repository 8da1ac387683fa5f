"""Which layers go to workers on other machines: as few as let one whole conversation fit.

This machine's memory comes first, for each step waits for the network once for every worker. They
are filled in the order they were named in, so that few are waited for.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from msgspec import structs

from edgekv.budget.case import Case
from edgekv.budget.devices import Budget
from edgekv.budget.dry_run import DryRun
from edgekv.budget.formulas import padded
from edgekv.budget.judge import Judge, sum_bytes
from edgekv.budget.search import preferred_choice
from edgekv.budget.styles import PRECISE
from edgekv.core.plan import Choice


async def with_workers(case: Case, judge: Judge) -> Case:
    """The case with the layers that workers hold. Where not even the shortest conversation fits,
    with as many as they can hold.
    """
    case = case if judge.budget.has_gpu else replace(case, gpu_layers=0)
    placed = case
    for conversation in _conversations(case):
        placed, fits = await _placed(case, conversation, judge)
        if fits:
            break
    return placed


def worker_sentences(budget: Budget, choice: Choice, all_layers: int) -> Iterator[str]:
    """What the plan does with the workers that were named."""
    if not budget.lent:
        return
    num_moved = sum(choice.worker_layers)
    if not num_moved:
        yield "No worker holds anything: one whole conversation fits this machine's own memory."
        return
    yield (
        f"{num_moved} of {all_layers} layers are on workers, as few as let one conversation fit; "
        "each step waits for the network, so more memory here makes answers faster."
    )
    if choice.kv_type_k == choice.kv_type_v == PRECISE:
        yield (
            f"Keys and values are {PRECISE}: 'edgekv validate' judges other types on one machine, "
            "so with workers only --kv-type chooses them."
        )


def _conversations(case: Case) -> Iterator[Choice]:
    """One that people can work with, and ever shorter ones if nobody fixed how long it is."""
    choice = preferred_choice(replace(case, most_slots=1))
    yield choice
    if case.wish.context_length is None and case.wish.cells is None:
        while choice.context_length // 2 >= case.least_context:
            choice = structs.replace(
                choice,
                context_length=choice.context_length // 2,
                cells=padded(choice.cells // 2),
            )
            yield choice


@dataclass(frozen=True, slots=True)
class _Try:
    """So many layers on workers, given that each device of theirs has room for so many."""

    num_moved: int
    rooms: tuple[int, ...]

    @property
    def has_room(self) -> bool:
        return self.num_moved <= sum(self.rooms)

    @property
    def layers(self) -> tuple[int, ...]:
        """By device, the first ones filled."""
        left, layers = self.num_moved, []
        for room in self.rooms:
            layers.append(min(left, room))
            left -= layers[-1]
        return tuple(layers)


async def _placed(case: Case, conversation: Choice, judge: Judge) -> tuple[Case, bool]:
    """The case with the fewest layers on workers that let `conversation` fit, and whether it does.

    Every round moves more layers or learns that a worker has room for fewer.
    """
    most = case.all_layers - case.gpu_layers
    fixed = None if judge.budget.has_gpu else case.wish.gpu_layers
    tried = _Try(fixed or 0, (most,) * len(judge.budget.lent))
    placed = case
    while tried.has_room and tried.num_moved <= most:
        placed = _with_layers(case, tried.layers)
        run = await judge.run(_placed_as(conversation, placed))
        if judge.spare_bytes(run) >= 0:
            return placed, True
        learned = _learned(tried, run, judge, case.all_layers)
        if learned.num_moved > tried.num_moved and fixed is not None:
            break
        tried = learned
    return placed, False


def _with_layers(case: Case, layers: Sequence[int]) -> Case:
    num_moved = sum(layers)
    if not num_moved:
        return case
    # A worker may compute with anything, so what was found out on this machine says nothing of it.
    return replace(
        case,
        tested=(),
        gpu_layers=case.gpu_layers + num_moved,
        worker_layers=tuple(layers),
    )


def _placed_as(choice: Choice, case: Case) -> Choice:
    return structs.replace(choice, gpu_layers=case.gpu_layers, worker_layers=case.worker_layers)


def _learned(tried: _Try, run: DryRun, judge: Judge, all_layers: int) -> _Try:
    """The next try, from what the last one lacked where."""
    lines = judge.lines(run)
    layer_bytes = _layer_bytes(run, judge, all_layers)
    rooms = [
        room if (spare := judge.spare_in(pool, lines)) >= 0 else layers - -(spare // layer_bytes)
        for pool, room, layers in zip(judge.budget.lent, tried.rooms, tried.layers, strict=True)
    ]
    spare_here = judge.spare_here(lines)
    more = 0 if spare_here >= 0 else -(spare_here // layer_bytes)
    return _Try(tried.num_moved + more, tuple(max(0, room) for room in rooms))


def _layer_bytes(run: DryRun, judge: Judge, all_layers: int) -> int:
    """What a layer takes with its cells, on average; the words' part makes it too much rather than
    too little, so that no layer is moved for nothing.
    """
    moving = [line for line in judge.lines(run) if line.label in {"weights", "kv", "recurrent"}]
    return max(1, sum_bytes(moving) // all_layers)
