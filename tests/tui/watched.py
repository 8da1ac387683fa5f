"""A scripted worker that is also watched: a report with fixed numbers, and a desk for its plan."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable

from msgspec.structs import replace

from edgekv.budget.machine import read_machine
from edgekv.budget.wish import Wish
from edgekv.core.frames import Described, Snapshot
from edgekv.core.inspection import HeldRun
from edgekv.core.look import EngineLook, RunningRequest, WaitingRequest
from edgekv.core.plan import Allocation, BufferSize, CostLine, DeviceInfo, MemoryPlan
from edgekv.core.request import Priority, RequestId, SeqId
from edgekv.errors import DoesNotFit, EdgeKVError
from edgekv.service.drafts import Desk, Draft
from edgekv.service.engine_client import EngineClient
from edgekv.service.ground import Ground
from edgekv.service.report import Report
from tests.tui.fakes import MIB, Script, ScriptedWorker, a_model, a_plan

SIXTY_BYTES = 60 * MIB


def ids(*numbers: int) -> tuple[SeqId, ...]:
    return tuple(map(SeqId, numbers))


def a_running(number: int, *, prompt: int, computed: int, generated: int) -> RunningRequest:
    return RunningRequest(
        request_id=RequestId(f"request-{number}"),
        seq_id=SeqId(number),
        priority=Priority.INTERACTIVE if number == 0 else Priority.NORMAL,
        num_prompt=prompt,
        num_computed=computed,
        num_generated=generated,
        max_tokens=1024,
    )


def a_busy_look() -> EngineLook:
    """Three running with one prefix, one kept conversation, one suspended and one waiting."""
    return EngineLook(
        running=(
            a_running(0, prompt=1210, computed=1521, generated=312),
            a_running(1, prompt=1180, computed=1236, generated=57),
            a_running(2, prompt=2930, computed=1640, generated=0),
        ),
        waiting=(
            WaitingRequest(RequestId("request-8"), Priority.BATCH, 2210, True, "room"),
            WaitingRequest(RequestId("request-9"), Priority.NORMAL, 1150, False, "slot"),
        ),
        runs=(
            HeldRun(0, 1024, ids(0, 1, 2), ()),
            HeldRun(1024, 497, ids(0), ()),
            HeldRun(1024, 212, ids(1), ()),
            HeldRun(1024, 616, ids(2), ()),
            HeldRun(0, 1400, (), ids(4)),
        ),
    )


def a_busy_report() -> Report:
    plan = two_devices(a_plan("SmolLM2 135M Instruct"))
    return Report(
        snapshot=Snapshot(
            num_cells=8192,
            cells_used=3749,
            cells_shared=1024,
            cells_kept=1400,
            cells_reserved=960,
            num_running=3,
            num_waiting=2,
            num_suspended=1,
            num_suspensions=4,
            tokens_recomputed=96,
            num_steps=4210,
            prompt_tokens_computed=9120,
            prompt_tokens_reused=30310,
            prompt_tokens_restored=2048,
            tokens_generated=12904,
            resident_bytes=214 * MIB,
            store_host_bytes=9 * MIB,
            store_disk_bytes=310 * MIB,
        ),
        look=a_busy_look(),
        plan=plan,
        allocation=Allocation((BufferSize("CUDA0", "weights", SIXTY_BYTES),)),
        first_token_seconds=tuple(0.4 + 0.2 * math.sin(n) for n in range(24)),
        gap_seconds=tuple(0.05 + 0.03 * math.sin(n / 3) + 0.01 * (n % 5) for n in range(120)),
    )


def two_devices(plan: MemoryPlan) -> MemoryPlan:
    line = CostLine("CUDA0", "weights", SIXTY_BYTES, "copied from the file")
    return replace(
        plan,
        choice=replace(plan.choice, slots=4, host_cache_bytes=32 * MIB),
        lines=(*plan.lines, line),
        total_bytes=plan.total_bytes + line.bytes,
    )


class PaperDesk(Desk):
    """Plans by rule: 12 KiB a token of context and slot; what needs more than 1 GiB is refused."""

    def __init__(
        self, plan: MemoryPlan, wish: Wish, take: Callable[[Draft], Awaitable[None]]
    ) -> None:
        cpu = DeviceInfo("CPU", "cpu", "processor", 8192 * MIB, None)
        cuda = DeviceInfo("CUDA0", "cuda", "graphics", 8192 * MIB, 8192 * MIB)
        described = Described(1, a_model("SmolLM2"), (cpu, cuda), 0)
        super().__init__(Ground(read_machine(), described), wish, take, EngineClient.start)
        self._plan = plan
        self.asked: list[Wish] = []
        self.is_closed = False

    async def draft(self, wish: Wish) -> Draft:
        self.asked.append(wish)
        context, slots = wish.context_length or 8192, wish.slots or 1
        needed = 12 * 1024 * context * slots
        if needed > 1024 * MIB:
            raise DoesNotFit("Too long; --ctx 16384 would fit.", needed, 1024 * MIB)
        choice = replace(
            self._plan.choice,
            context_length=context,
            slots=slots,
            cells=context * slots,
            kv_type_k=wish.kv_type_k or "q8_0",
            kv_type_v=wish.kv_type_v or "q8_0",
        )
        lines = tuple(
            replace(line, bytes=needed) if line.label == "kv" else line for line in self._plan.lines
        )
        total = sum(line.bytes for line in lines)
        return Draft(wish, replace(self._plan, choice=choice, lines=lines, total_bytes=total))

    async def close(self) -> None:
        self.is_closed = True


class WatchedWorker(ScriptedWorker):
    """`reported` is what every report says; `desks` are all that were asked for."""

    def __init__(self, *scripts: Script, reported: Report | None = None) -> None:
        super().__init__(*scripts)
        self.reported = reported or a_busy_report()
        self.silence: EdgeKVError | None = None
        """Raised instead of a report."""
        self.take_error: EdgeKVError | None = None
        self.desks: list[PaperDesk] = []
        self.taken: list[Draft] = []
        self.wish = Wish(context_length=8192)

    async def report(self) -> Report:
        if self.silence is not None:
            raise self.silence
        return self.reported

    @property
    def desk(self) -> Desk | None:
        if self.plan is None:
            return None
        self.desks.append(PaperDesk(self.plan, self.wish, self.reopen))
        return self.desks[-1]

    async def reopen(self, draft: Draft) -> None:
        if self.take_error is not None:
            raise self.take_error
        self.taken.append(draft)
        self.plan, self.wish = draft.plan, draft.wish
        self.reported = replace(self.reported, plan=draft.plan)
