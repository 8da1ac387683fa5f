"""How much of what a plan may use it does use, and why not all of it. Nothing is loaded.

The pool grows in steps of 256 cells until each conversation has all the context that the model
can follow, so a plan that has reached that leaves the rest unused.

    python -m bench.budget_use --model models/SmolLM2-135M-Instruct.Q4_1.gguf
"""

from __future__ import annotations

import argparse
import asyncio

from bench.report import report
from edgekv.budget.sizes import parse_size
from edgekv.budget.wish import Wish
from edgekv.core.plan import MemoryPlan
from edgekv.errors import DoesNotFit
from edgekv.service.worker import Worker

MIB = 1024 * 1024
BUDGETS = ("256MiB", "512MiB", "1GiB", "2GiB", "4GiB", "8GiB")


async def plan_for(model: str, memory: str) -> MemoryPlan | None:
    worker = Worker(model, Wish(memory_bytes=parse_size(memory), embeddings=None, grammars=True))
    try:
        return await worker.make_plan()
    except DoesNotFit:
        return None
    finally:
        await worker.close()


def figures(plan: MemoryPlan | None) -> dict[str, object]:
    if plan is None:
        return {"fits": False}
    choice, trained = plan.choice, plan.model.context_train
    return {
        "share": round(plan.total_bytes / plan.budget_bytes, 4),
        "unused_mib": round((plan.budget_bytes - plan.total_bytes) / MIB, 1),
        "has_all_context": choice.cells >= trained * choice.slots,
        "context_length": choice.context_length,
        "slots": choice.slots,
        "cells": choice.cells,
        "kv_type": f"{choice.kv_type_k}/{choice.kv_type_v}",
        "ubatch": choice.ubatch,
        "whole_windows": choice.swa_full,
        "embeds": bool(choice.embedding_cells),
        "host_cache_mib": round(choice.host_cache_bytes / MIB, 1),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description="Share of the budget that plans use.")
    parser.add_argument("--model", required=True)
    parser.add_argument("--memory", nargs="*", default=list(BUDGETS))
    options = parser.parse_args()
    result: dict[str, object] = {
        memory: figures(asyncio.run(plan_for(options.model, memory))) for memory in options.memory
    }
    report("budget_use", options.model, result)


if __name__ == "__main__":
    main()
