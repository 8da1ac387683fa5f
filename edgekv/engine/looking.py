"""What runs and waits now, as values for people."""

from __future__ import annotations

from edgekv.core.inspection import HeldRun
from edgekv.core.look import MOST_WAITING, EngineLook, RunningRequest, WaitingRequest, WaitsFor
from edgekv.core.sequence import Sequence
from edgekv.engine.scheduler import Scheduler
from edgekv.engine.waiting_line import Waiting


def look_at(scheduler: Scheduler, runs: tuple[HeldRun, ...]) -> EngineLook:
    """`runs` is who holds which cells. Costs a few microseconds a sequence id."""
    waiting = scheduler.waiting()[:MOST_WAITING]
    return EngineLook(
        running=tuple(map(_running, scheduler.running.values())),
        waiting=tuple(_waiting(entry, scheduler) for entry in waiting),
        runs=runs,
    )


def _running(seq: Sequence) -> RunningRequest:
    request = seq.request
    return RunningRequest(
        request_id=request.id,
        seq_id=seq.seq_id,
        priority=request.priority,
        num_prompt=len(request.prompt),
        num_computed=seq.num_computed,
        num_generated=seq.num_generated,
        max_tokens=request.max_tokens,
    )


def _waiting(entry: Waiting, scheduler: Scheduler) -> WaitingRequest:
    return WaitingRequest(
        request_id=entry.request.id,
        priority=entry.request.priority,
        num_tokens=len(entry.tokens),
        is_suspended=entry.is_suspended,
        waits_for=_what_for(entry, scheduler),
    )


def _what_for(entry: Waiting, scheduler: Scheduler) -> WaitsFor:
    leader = entry.leader
    is_led = leader is not None and scheduler.running.get(leader.seq_id) is leader
    if leader is not None and is_led and leader.num_computed < entry.leader_length:
        return "prefix"
    return "room" if scheduler.num_free_slots else "slot"
