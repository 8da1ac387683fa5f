"""Ten times more requests than the server can take, callers that leave, and an engine killed twice.

Every request must be accounted for: answered whole, turned away with 429, or left by its caller.

    python -m bench.overload --model models/SmolLM2-135M-Instruct.Q4_1.gguf
"""

from __future__ import annotations

import argparse
import asyncio
import collections
import contextlib
import random
from typing import Any

import httpx
import openai
import psutil

from bench.callers import outcome_of
from bench.clients import Answer, Client
from bench.report import report
from bench.serving import Server, edgekv, kill_engine
from bench.words import words
from edgekv.service.messages import Message

LEAVES = 0.2
"""The share of callers that leave before their answer is whole."""


OUTCOMES = ("whole", "left", "turned_away", "refused", "short", "failed")
"""Of these `short` and `failed` should not be, nor `refused` where every prompt fits."""


class Load:
    """Callers that come in waves of `at_once`, until `total` have come."""

    def __init__(self, server: Server, total: int, at_once: int, most_words: int) -> None:
        self._server, self._client = server, Client(server.url)
        self.total, self._gate = total, asyncio.Semaphore(at_once)
        self._most_words = most_words
        self._draw = random.Random(1)
        self.outcomes: collections.Counter[str] = collections.Counter()
        self.errors: set[str] = set()

    async def run(self) -> None:
        callers = [asyncio.create_task(self._call(number)) for number in range(self.total)]
        for share in (0.3, 0.6):
            await self._until(share)
            kill_engine(self._server)
        await asyncio.gather(*callers)

    async def _until(self, share: float) -> None:
        while self.outcomes.total() < share * self.total:
            await asyncio.sleep(0.05)

    async def _call(self, number: int) -> None:
        chat = [Message("user", words(self._draw.randint(5, self._most_words), seed=number))]
        tokens = self._draw.randint(4, 32)
        patience = self._draw.uniform(0.1, 3) if self._draw.random() < LEAVES else None
        async with self._gate:
            try:
                async with asyncio.timeout(patience):
                    answer = await self._client.ask(chat, tokens, ignore_eos=True)
            except TimeoutError:
                self.outcomes["left"] += 1
                return
        self._count(answer, tokens)

    def _count(self, answer: Answer | openai.APIError, tokens: int) -> None:
        outcome = outcome_of(answer, tokens)
        self.outcomes[outcome] += 1
        if outcome == "failed":
            self.errors.add(str(answer))


async def run(server: Server, load: Load) -> dict[str, object]:
    memory, pool = PeakMemory(server), CrowdedPool(server)
    watching = [asyncio.create_task(memory.watch()), asyncio.create_task(pool.watch())]
    await load.run()
    for task in watching:
        task.cancel()
    metrics, plan = server.metrics(), httpx.get(server.root + "/plan").json()
    return {
        "requests": load.total,
        "accounted_for": load.outcomes.total(),
        **{name: load.outcomes[name] for name in OUTCOMES},
        "errors": sorted(load.errors),
        "engine_restarts": metrics["edgekv_engine_restarts_total"],
        "cells_used_afterwards_by_running": metrics["edgekv_running"],
        "suspensions": metrics["edgekv_suspensions_total"],
        "recomputed_tokens": metrics["edgekv_recomputed_tokens_total"],
        **pool.result(),
        "planned_bytes": plan["total_bytes"],
        "peak_resident_bytes": memory.peak_bytes,
    }


class PeakMemory:
    """The largest resident size of any engine process of the server, looked at often."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self.peak_bytes = 0

    async def watch(self) -> None:
        while True:
            if (engine := self._server.engine()) is not None:
                with contextlib.suppress(psutil.NoSuchProcess):
                    self.peak_bytes = max(self.peak_bytes, engine.memory_info().rss)
            await asyncio.sleep(0.05)


class CrowdedPool:
    """What of the pool lies idle while requests wait for room and not for a slot."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._free: list[float] = []
        self._reserved: list[float] = []

    async def watch(self) -> None:
        async with httpx.AsyncClient(base_url=self._server.root) as client:
            while True:
                with contextlib.suppress(httpx.HTTPError):
                    self._look((await client.get("/engine")).raise_for_status().json())
                await asyncio.sleep(0.2)

    def result(self) -> dict[str, object]:
        return {
            "looks_while_waiting_for_room": len(self._free),
            "free_of_all_cells": _mean(self._free),
            "reserved_of_all_cells": _mean(self._reserved),
        }

    def _look(self, report: dict[str, Any]) -> None:
        waiting = report["look"]["waiting"]
        if waiting and waiting[0]["waits_for"] == "room":
            cells = report["snapshot"]
            total = cells["num_cells"]
            self._free.append((total - cells["cells_used"]) / total)
            self._reserved.append(cells["cells_reserved"] / total)


def _mean(shares: list[float]) -> float | None:
    return round(sum(shares) / len(shares), 4) if shares else None


def main() -> None:
    parser = argparse.ArgumentParser(description="Ten times too many requests.")
    parser.add_argument("--model", required=True)
    parser.add_argument("--requests", type=int, default=1000)
    parser.add_argument("--slots", type=int, default=8)
    parser.add_argument("--words", type=int, default=120, help="of the longest prompt")
    parser.add_argument("--cells", type=int, default=768, help="too few for that many")
    parser.add_argument("--serve", action="append", default=[], help="an option for edgekv serve")
    options = parser.parse_args()
    pool = (
        "--slots",
        str(options.slots),
        "--cells",
        str(options.cells),
        "--ctx",
        "512",
        "--queue",
        "64",
    )
    with edgekv(options.model, *pool, *options.serve) as server:
        load = Load(server, options.requests, 10 * options.slots, options.words)
        result = asyncio.run(run(server, load))
    report("overload", options.model, result)


if __name__ == "__main__":
    main()
