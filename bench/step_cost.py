"""What a step costs beside llama.cpp: the engine's own Python, with a library that takes no time.

    python bench/step_cost.py --running 64 --kept 192 --kept-tokens 100000 --waiting 1000

The last line is one JSON document. Milliseconds are of CPU time, medians over the steps: other work
on the machine changes little. `cache` is the part of the tree and all other books of cells;
`--decode-ms` says what the library takes for such a step, for the share of both together.
"""

from __future__ import annotations

import argparse
import json
import platform
import statistics
import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent))

from edgekv import __version__
from edgekv.core.request import Request, RequestId, Token
from edgekv.engine.engine import Engine, Limits
from edgekv.traffic.no_work import NoWork


class Timed:
    """Another object, and the CPU seconds that its methods took."""

    def __init__(self, timed: object) -> None:
        self._timed = timed
        self.seconds = 0.0

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._timed, name)

        def call(*arguments: Any) -> Any:
            started = time.thread_time()
            result = method(*arguments)
            self.seconds += time.thread_time() - started
            return result

        return call


def prompt(number: int, length: int) -> tuple[Token, ...]:
    """Tokens that share one part in ten with every other prompt."""
    common = length // 10
    return tuple(Token(100 + i) for i in range(common)) + tuple(
        Token(1000 + number) for _ in range(length - common)
    )


def finish(engine: Engine) -> None:
    while not engine.is_idle:
        engine.step()


def measure(
    running: int, kept: int = 0, kept_tokens: int = 0, waiting: int = 0, steps: int = 200
) -> dict[str, object]:
    """`kept` sequences hold `kept_tokens` in all."""
    length = kept_tokens // max(1, kept)
    num_cells = 4 * (kept_tokens + running * 2048)
    engine = Engine(
        NoWork(num_cells, running + kept),
        Limits(running, num_cells, batch_tokens=4096),
        end_tokens=frozenset(),
    )
    for number in range(kept):
        engine.submit(Request(RequestId(f"kept {number}"), prompt(number, length), 1))
        finish(engine)
    cache = Timed(engine._cache)
    engine._scheduler._cache = cache
    admitted: list[float] = []
    for number in range(running + waiting):
        asked = prompt(10_000 + number, 500)
        engine.submit(Request(RequestId(str(number)), asked, steps + 50, ignore_end=True))
    while engine.snapshot().tokens_generated < kept + running:
        started = time.thread_time()
        engine.step()
        admitted.append(time.thread_time() - started)
    took: list[float] = []
    in_cache: list[float] = []
    for _ in range(steps):
        cache.seconds, started = 0.0, time.thread_time()
        engine.step()
        took.append(time.thread_time() - started)
        in_cache.append(cache.seconds)
    snapshot = engine.snapshot()
    return {
        "running": snapshot.num_running,
        "waiting": snapshot.num_waiting,
        "kept_cells": snapshot.cells_kept,
        "step_ms": round(1000 * statistics.median(took), 3),
        "step_ms_worst": round(1000 * max(took), 3),
        "cache_ms": round(1000 * statistics.median(in_cache), 3),
        "admission_step_ms_worst": round(1000 * max(admitted), 3),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description="What a step costs beside llama.cpp.")
    parser.add_argument("--running", type=int, default=16)
    parser.add_argument("--kept", type=int, default=0, help="kept sequences")
    parser.add_argument("--kept-tokens", type=int, default=0, help="their tokens in all")
    parser.add_argument("--waiting", type=int, default=0)
    parser.add_argument(
        "--decode-ms", type=float, default=317.0, help="64 sequences, SmolLM2-135M, two cores"
    )
    parser.add_argument("--steps", type=int, default=200)
    given = parser.parse_args()
    costs = measure(given.running, given.kept, given.kept_tokens, given.waiting, given.steps)
    cache_ms = costs["cache_ms"]
    assert isinstance(cache_ms, float)
    document = {
        "bench": "step_cost",
        "edgekv": __version__,
        "machine": f"{platform.machine()} {platform.processor()}".strip(),
        **costs,
        "cache_share": round(cache_ms / given.decode_ms, 4),
    }
    sys.stdout.write(json.dumps(document) + "\n")


if __name__ == "__main__":
    main()
