"""A memory plan for a model file, with the numbers of an engine process that has nothing open."""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path

from msgspec import structs

from edgekv.budget import dry_run as dry_runs
from edgekv.budget.differences import differences, spilled
from edgekv.budget.machine import Machine, Reading
from edgekv.budget.outcomes import Outcome
from edgekv.budget.planner import Basis, plan_memory
from edgekv.budget.probe import Probe
from edgekv.budget.replan import plan_as_opened, replan
from edgekv.budget.room import Held, margins, rooms
from edgekv.budget.sizes import Reserve, format_size
from edgekv.budget.wish import Wish
from edgekv.config.places import data_folder
from edgekv.core.frames import Describe, Described, DryRun, DryRunDone, Opened
from edgekv.core.memory_frames import Survey, Surveyed
from edgekv.core.plan import Allocation, Choice, MemoryPlan, Opening
from edgekv.errors import DoesNotFit, ModelError
from edgekv.quality.verdicts import Subject, Verdicts
from edgekv.service.engine_client import EngineClient
from edgekv.service.remote_workers import (
    NO_WORKERS,
    SECONDS_TO_COME_BACK,
    Workers,
    find_workers,
)

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Ground:
    """What every plan for a model on this machine stands on, read while nothing was open."""

    machine: Machine
    described: Described
    tested: tuple[Outcome, ...] = ()
    """What the gate found out about KV types on this model."""
    workers: Workers = NO_WORKERS
    file: tuple[int, ...] | None = None
    """Tells the model's file from another one of that name."""


async def start_engine(wish: Wish, seconds_to_wait: float = 0.0) -> EngineClient:
    """A process that has the devices of those workers that are there, now or after a while."""
    workers = await find_workers(wish.workers, seconds_to_wait)
    for sentence in workers.left_out:
        _log.warning("%s", sentence)
    return await EngineClient.start(workers=workers)


async def start_again(wish: Wish, ended: EngineClient) -> EngineClient:
    """Another process for one that ended. The log says how it ended."""
    how, _, _ = str(ended.death).partition(";")
    _log.warning("%s, so it is started again; answers under way go on.", how)
    return await start_engine(wish, SECONDS_TO_COME_BACK)


async def read_ground(client: EngineClient, path: str, machine: Machine) -> Ground:
    """`machine` must have been read before `client` took any memory. Raises `ModelError`."""
    described = await client.call(lambda call: Describe(call, path))
    assert isinstance(described, Described)
    described = structs.replace(described, devices=client.workers.timed(described.devices))
    return Ground(
        machine, described, tested_types(described), client.workers, _file_at(described.facts.path)
    )


def _file_at(path: str) -> tuple[int, ...] | None:
    try:
        status = Path(path).stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino, status.st_size


def check_file(ground: Ground | None) -> None:
    """Raise `ModelError` if the model's file is another one by now: the plan and the answers under
    way belong to what was there before.
    """
    if ground is not None and ground.file != _file_at(path := ground.described.facts.path):
        raise ModelError(
            f"{path} was replaced or removed while it was in use; start EdgeKV again to use what "
            "is there now."
        )


def subject_of(described: Described) -> Subject:
    """What a verdict of the gate holds for."""
    here = (device for device in described.devices if device.kind != "rpc")
    devices = tuple(device.name or device.id for device in here)
    return Subject(described.facts.path, devices, version("llama-cpp-python"))


def verdicts() -> Verdicts | None:
    """Those kept for this user; None for a user without a home."""
    folder = data_folder()
    return None if folder is None else Verdicts(folder / "verdicts")


def tested_types(described: Described) -> tuple[Outcome, ...]:
    """What is known of the file; nothing of one that cannot be read any more."""
    known = verdicts()
    if known is None:
        return ()
    try:
        found = known.of(subject_of(described))
    except OSError as error:
        _log.warning("verdicts on KV types are not used: %s", error)
        return ()
    return tuple(
        Outcome(v.kv_type_k, v.kv_type_v, v.quick, v.longest, next(iter(v.objections), None))
        for v in found
    )


async def plan_on(client: EngineClient, ground: Ground, wish: Wish) -> MemoryPlan:
    """The best plan that keeps the wish; `client` answers the dry runs. Raises `DoesNotFit`,
    `InvalidValue` or `ModelError`.
    """
    try:
        return await plan_memory(_basis(ground, wish), _allocator_of(client))
    except DoesNotFit as error:
        sentences = " ".join((str(error), *ground.workers.left_out))
        raise DoesNotFit(sentences, error.needed, error.available) from error


def _allocator_of(client: EngineClient) -> dry_runs.AskLibrary:
    async def dry_run(opening: Opening) -> Allocation:
        reply = await client.call(lambda call: DryRun(call, opening))
        assert isinstance(reply, DryRunDone)
        return reply.allocation

    return dry_run


async def plan_less(
    client: EngineClient, ground: Ground, wish: Wish, opened: dry_runs.DryRun, most_bytes: int
) -> MemoryPlan | None:
    """The best plan that takes no more than `most_bytes`. If one fits that is but another size of
    what was open, it is that, for then cells on disk go on to be of use. None, which is logged, if
    none fits. Raises `InvalidValue` or `ModelError`.
    """
    less = replace(
        wish,
        memory_bytes=min(most_bytes, wish.memory_bytes or most_bytes),
        reserve=wish.reserve or _usual_reserve(ground, wish),
    )
    plan = replan(_basis(ground, less), opened.choice, opened)
    if not plan.fits:
        try:
            return await plan_on(client, ground, less)
        except DoesNotFit as error:
            _log.warning("The engine ran out of memory and no smaller plan fits: %s", error)
            return None
    run = await _basis(ground, wish).judge(_allocator_of(client)).run(plan.choice)
    return plan_opened(ground, wish, run.choice, run.allocation)


def _usual_reserve(ground: Ground, wish: Wish) -> Reserve | None:
    """What a plan leaves to others where the user neither said that nor its whole size."""
    return Reserve(ground.machine.reserve.value) if wish.memory_bytes is None else None


async def plan_again(
    client: EngineClient, ground: Ground, wish: Wish, plan: MemoryPlan, probe: Probe
) -> tuple[Ground, MemoryPlan]:
    """The same ground and plan, or new ones if half of what the plan left was taken meanwhile.

    `client` holds what it held when the plan was made. Raises `DoesNotFit` if there is no longer
    enough for any plan.
    """
    surveyed = await client.call(Survey)
    assert isinstance(surveyed, Surveyed)
    machine, devices = probe.machine(), surveyed.devices
    held = Held(machine.available.value, probe.taken_bytes(client.pid), devices)
    before = Held(ground.machine.available.value, 0, ground.described.devices)
    margin, nothing = margins(plan), Allocation(())
    is_short = any(
        now.spare_bytes * 2 < now.margin_bytes and now.spare_bytes < then.spare_bytes
        for then, now in zip(
            rooms(plan, nothing, before, margin), rooms(plan, nothing, held, margin), strict=False
        )
    )
    if not is_short:
        return ground, plan
    available = Reading(held.available + held.private, machine.available.source)
    described = structs.replace(ground.described, devices=ground.workers.timed(devices))
    ground = replace(ground, machine=replace(machine, available=available), described=described)
    made = await plan_on(client, ground, wish)
    _log.warning(
        "Other programs took memory while the plan was made, so it was made again: "
        "%s instead of %s.",
        format_size(made.total_bytes),
        format_size(plan.total_bytes),
    )
    return ground, made


def plan_opened(ground: Ground, wish: Wish, choice: Choice, allocation: Allocation) -> MemoryPlan:
    """The plan that says what is allocated."""
    return plan_as_opened(_basis(ground, wish), dry_runs.DryRun(choice, allocation))


def _basis(ground: Ground, wish: Wish) -> Basis:
    described = ground.described
    return Basis(
        described.facts,
        described.devices,
        ground.machine,
        wish,
        described.resident_bytes,
        ground.tested,
        ground.workers.left_out,
    )


def held_to(ground: Ground, wish: Wish, plan: MemoryPlan, opened: Opened) -> MemoryPlan:
    """The same plan, with a sentence for each line that llama.cpp did not keep to, and for each
    device whose memory spilled; they are logged too.
    """
    real = plan_opened(ground, wish, plan.choice, opened.allocation)
    sentences = differences(plan, real, opened.resident_bytes)
    if ground.machine.spills:
        sentences += tuple(spilled(opened.allocation, opened.devices_before, opened.devices_after))
    for sentence in sentences:
        _log.warning("The plan was not kept: %s", sentence)
    kept = tuple(sentence for sentence in plan.limits if sentence not in sentences)
    return structs.replace(plan, limits=(*sentences, *kept))
