"""Do conversations that lie idle slow one that runs? CPU time of a decoded token, three ways.

    fresh     nothing but the conversation that runs
    stored    others have ended before; host memory takes what leaves the pool
    kept      the same without a place for copies, so that all stay in the pool

llama.cpp attends up to the highest used cell, so what lies idle below it costs time. CPU seconds of
the whole process are counted, and it has one thread, which never waits for another: other work on
the machine changes little.

    python -m bench.idle --model models/SmolLM2-135M-Instruct.Q4_1.gguf
"""

from __future__ import annotations

import argparse
import os
import time

from bench.report import report
from edgekv.core.plan import Choice, Opening
from edgekv.core.request import Request, RequestId, SamplingParams, Token
from edgekv.engine.engine import Engine, Limits
from edgekv.kv.store import Store
from edgekv.service.engine_client import ENVIRONMENT

GIB = 1024**3
GREEDY = SamplingParams(temperature=0)


def opened(model: str, cells: int, host_bytes: int) -> Engine:
    from edgekv.llama.backend import LlamaLibrary

    choice = Choice(
        context_length=cells,
        slots=4,
        cells=cells,
        kv_type_k="q8_0",
        kv_type_v="q8_0",
        gpu_layers=0,
        batch=256,
        ubatch=256,
        swa_full=True,
        flash_attention=True,
        kept=16,
        threads=1,
        host_cache_bytes=host_bytes,
    )
    backend, _, _ = LlamaLibrary(()).open(Opening(model, choice), lambda _: None)
    limits = Limits(slots=4, context_length=cells, batch_tokens=256)
    store = Store(host_limit_bytes=host_bytes)
    return Engine(backend, limits, end_tokens=frozenset(), store=store)


def run(engine: Engine, name: str, first: int, num_prompt: int, num_tokens: int) -> float:
    """CPU milliseconds for each token but the first of one answer."""
    prompt = tuple(Token(1000 + (first * 7919 + i) % 40_000) for i in range(num_prompt))
    engine.submit(Request(RequestId(name), prompt, num_tokens, GREEDY, ignore_end=True))
    generated = engine.snapshot().tokens_generated
    while engine.snapshot().tokens_generated == generated:
        engine.step()
    started = time.process_time()
    while not engine.is_idle:
        engine.step()
    return 1000 * (time.process_time() - started) / max(1, num_tokens - 1)


def main() -> None:
    parser = argparse.ArgumentParser(description="What idle conversations cost a running one.")
    parser.add_argument("--model", required=True)
    parser.add_argument("--cells", type=int, default=4096)
    parser.add_argument("--conversations", type=int, default=12)
    parser.add_argument("--prompt", type=int, default=300, help="tokens of each")
    parser.add_argument("--tokens", type=int, default=32)
    options = parser.parse_args()
    os.environ |= ENVIRONMENT | os.environ
    result: dict[str, object] = {}
    for way, host_bytes, idle in (("fresh", GIB, 0), ("stored", GIB, 1), ("kept", 0, 1)):
        engine = opened(options.model, options.cells, host_bytes)
        for number in range(idle * options.conversations):
            run(engine, f"idle {number}", 1 + number, options.prompt, 1)
        result[f"cells_used_{way}"] = engine.snapshot().cells_used
        cpu_ms = run(engine, "running", 0, 32, options.tokens)
        result[f"cpu_ms_a_token_{way}"] = round(cpu_ms, 2)
    report("idle", options.model, result)


if __name__ == "__main__":
    main()
