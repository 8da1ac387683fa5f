"""The plan against the truth: planned bytes and the engine's peak resident memory.

For each budget the model is opened as planned and one conversation fills its whole context.
The peak is VmHWM of the engine process (Linux).

    python -m bench.memory --model models/SmolLM2-135M-Instruct.Q4_1.gguf --memory 1GiB 4GiB auto
"""

from __future__ import annotations

import argparse
import asyncio
import random
import re
from pathlib import Path

from bench.report import report
from edgekv.budget.sizes import parse_size
from edgekv.budget.wish import Wish
from edgekv.core.events import Finished
from edgekv.core.frames import Submit
from edgekv.core.request import RequestId, SamplingParams, Token, TokenPrompt
from edgekv.service.conduct import Conduct
from edgekv.service.worker import Worker

MIB = 1024 * 1024


async def fill_one_context(worker: Worker) -> None:
    assert worker.plan is not None
    assert worker.facts is not None
    length, num_vocab = worker.plan.choice.context_length, worker.facts.num_vocab
    draw = random.Random(1)
    prompt = TokenPrompt(tuple(Token(draw.randrange(1000, num_vocab)) for _ in range(length - 8)))
    submit = Submit(
        RequestId("full"), prompt, sampling=SamplingParams(temperature=0), ignore_end=True
    )
    last = [event async for event in worker.stream(submit)][-1]
    assert isinstance(last, Finished)
    assert last.num_generated == 8


def peak_resident_bytes(pid: int) -> int:
    status = Path(f"/proc/{pid}/status").read_text()
    match = re.search(r"VmHWM:\s+(\d+) kB", status)
    assert match is not None
    return int(match[1]) * 1024


async def measure(model: str, memory: str) -> dict[str, object]:
    wish = Wish(memory_bytes=None if memory == "auto" else parse_size(memory))
    worker = Worker(model, wish, Conduct(disk_cache_bytes=0))
    await worker.start()
    await fill_one_context(worker)
    assert worker.engine_pid is not None
    assert worker.plan is not None
    peak, plan = peak_resident_bytes(worker.engine_pid), worker.plan
    await worker.close()
    choice = plan.choice
    return {
        "context_length": choice.context_length,
        "slots": choice.slots,
        "cells": choice.cells,
        "kv_type": f"{choice.kv_type_k}/{choice.kv_type_v}",
        "budget_mib": round(plan.budget_bytes / MIB, 1),
        "planned_mib": round(plan.total_bytes / MIB, 1),
        "host_cache_mib": round(sum(x.bytes for x in plan.lines if x.label == "host_cache") / MIB),
        "peak_resident_mib": round(peak / MIB, 1),
        "planned_over_peak": round(plan.total_bytes / peak, 3),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description="Planned bytes against peak resident memory.")
    parser.add_argument("--model", required=True)
    parser.add_argument("--memory", nargs="*", default=["1GiB", "4GiB", "auto"])
    options = parser.parse_args()
    result: dict[str, object] = {
        memory: asyncio.run(measure(options.model, memory)) for memory in options.memory
    }
    report("memory", options.model, result)


if __name__ == "__main__":
    main()
