"""An engine's report in words and figures, line by line."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from edgekv.budget.devices import HOST
from edgekv.budget.sizes import counted, format_size
from edgekv.core.frames import Snapshot
from edgekv.core.look import RunningRequest, WaitingRequest
from edgekv.core.plan import MemoryPlan
from edgekv.core.request import Priority, RequestId
from edgekv.service.report import Report
from edgekv.tui.cell_map import owner_mark

CALM = "calm"
"""`MemoryView.level` while nothing is given up."""
BARS = "▁▂▃▄▅▆▇█"
WAITS = {"slot": "for a slot", "room": "for cells", "prefix": "for a prefix being computed"}


def queue_words(snapshot: Snapshot) -> str:
    words = [f"{snapshot.num_running:,} running", f"{snapshot.num_waiting:,} waiting"]
    if snapshot.num_suspended:
        words.append(f"{snapshot.num_suspended:,} suspended")
    return " · ".join(words)


def num_cells(report: Report) -> int:
    """Of the pool. Before its first step an engine reports none."""
    planned = report.plan.choice.cells if report.plan else 0
    return report.snapshot.num_cells or planned


def cell_words(report: Report) -> str:
    snapshot = report.snapshot
    words = [f"{snapshot.cells_used:,} of {num_cells(report):,} cells used"]
    for number, word in (
        (snapshot.cells_shared, "shared"),
        (snapshot.cells_kept, "kept"),
        (snapshot.cells_reserved, "reserved"),
    ):
        if number:
            words.append(f"{number:,} {word}")
    return " · ".join(words)


def slot_words(report: Report, mine: Collection[RequestId] | None) -> list[str]:
    """A line for each slot, then one for each request that waits.

    `mine` are the requests of this terminal where others ask the same engine; None: all are.
    """
    slots = report.plan.choice.slots if report.plan else 0
    lines = [_running(request, mine) for request in report.look.running]
    num_free = max(0, slots - len(lines))
    if num_free:
        lines.append(f"  {counted(num_free, 'free slot')}")
    lines += [_waiting(request, mine) for request in report.look.waiting]
    num_more = report.snapshot.num_waiting - len(report.look.waiting)
    if report.look.waiting and num_more > 0:
        lines.append(f"… and {num_more:,} more that wait")
    return lines


def _running(request: RunningRequest, mine: Collection[RequestId] | None) -> str:
    if request.num_computed < request.num_prompt:
        part = request.num_computed / request.num_prompt
        doing = f"reading {part:4.0%} of {request.num_prompt:,} tokens"
    else:
        doing = f"answering {request.num_generated:,} after {request.num_prompt:,} tokens"
    return f"{owner_mark(request.seq_id)} {doing}{_whose(request, mine)}"


def _waiting(request: WaitingRequest, mine: Collection[RequestId] | None) -> str:
    what = "suspended" if request.is_suspended else "waiting"
    waits = f"{what} {WAITS[request.waits_for]}, {request.num_tokens:,} tokens"
    return f"… {waits}{_whose(request, mine)}"


def _whose(request: RunningRequest | WaitingRequest, mine: Collection[RequestId] | None) -> str:
    words = "" if request.priority is Priority.NORMAL else f" · {request.priority}"
    if mine is not None:
        words += " · yours" if request.request_id in mine else " · another client's"
    return words


def reuse_words(snapshot: Snapshot) -> str:
    """How much of all prompts was there already."""
    known = snapshot.prompt_tokens_reused + snapshot.prompt_tokens_restored
    total = known + snapshot.prompt_tokens_computed
    if not total:
        return "no prompt yet"
    words = f"{known / total:.0%} of {total:,} prompt tokens reused"
    if snapshot.prompt_tokens_restored:
        words += f" ({snapshot.prompt_tokens_restored:,} restored)"
    return words


def suspension_words(snapshot: Snapshot) -> str:
    words = counted(snapshot.num_suspensions, "suspension")
    if snapshot.tokens_recomputed:
        words += f", {snapshot.tokens_recomputed:,} tokens computed again"
    return words


def tier_words(report: Report) -> str:
    """What lies where: in the pool, in host memory, on disk."""
    snapshot, plan = report.snapshot, report.plan
    if plan is None:
        return ""
    kv_bytes = sum(line.bytes for line in plan.lines if line.label == "kv")
    in_pool = kv_bytes * snapshot.cells_used // max(1, num_cells(report))
    host, host_limit = snapshot.store_host_bytes, plan.choice.host_cache_bytes
    return (
        f"pool {format_size(in_pool)}/{format_size(kv_bytes)} · "
        f"host {format_size(host)}/{format_size(host_limit)} · "
        f"disk {format_size(snapshot.store_disk_bytes)}"
    )


def memory_words(report: Report) -> str:
    """Whether something is given up because other programs took memory, and what."""
    memory = report.memory
    if memory.level == CALM:
        return "enough is left for the plan"
    return memory.steps[-1] if memory.steps else f"{memory.level}"


def spark(values: Sequence[float], width: int) -> str:
    """The last `width` values as bars, from nothing to the largest of them."""
    shown = values[-width:] if width > 0 else ()
    most = max(shown, default=0.0)
    if most <= 0:
        return ""
    last = len(BARS) - 1
    return "".join(BARS[round(value / most * last)] for value in shown)


def seconds_words(values: Sequence[float]) -> str:
    """The last value, and the worst of those remembered."""
    if not values:
        return "none yet"
    return f"{_seconds(values[-1])}, at most {_seconds(max(values))}"


def _seconds(value: float) -> str:
    return f"{value * 1000:.0f} ms" if value < 1 else f"{value:.1f} s"


@dataclass(frozen=True, slots=True)
class DeviceMemory:
    device: str
    planned_bytes: int
    measured_bytes: int

    @property
    def words(self) -> str:
        return f"{format_size(self.measured_bytes)} of {format_size(self.planned_bytes)} planned"


def device_memory(report: Report) -> list[DeviceMemory]:
    """The plan and what is really held, for each device.

    On the host that is the engine's resident memory; elsewhere what the library allocated.
    """
    plan = report.plan
    if plan is None:
        return []
    return [
        DeviceMemory(
            device,
            sum(line.bytes for line in plan.lines if line.device == device),
            report.snapshot.resident_bytes if device == HOST else _allocated(report, device),
        )
        for device in _devices(plan)
    ]


def _devices(plan: MemoryPlan) -> list[str]:
    return list(dict.fromkeys(line.device for line in plan.lines))


def _allocated(report: Report, device: str) -> int:
    buffers = report.allocation.buffers if report.allocation else ()
    return sum(buffer.bytes for buffer in buffers if buffer.device == device)
