"""How much of a step is EdgeKV's own: the engine's main thread, the time inside C calls aside.

CPU seconds of that one thread are counted, so that other work on the machine changes little.

    python -m bench.python_share --model models/SmolLM2-135M-Instruct.Q4_1.gguf
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any

import llama_cpp.llama_cpp as api
import psutil

from bench.report import report
from edgekv.core.frames import EngineFrame, Open, Opened, Submit, encode
from edgekv.core.plan import CELL_PADDING, Choice, Opening
from edgekv.core.request import RequestId, SamplingParams, Token, TokenPrompt
from edgekv.engine.process import EngineProcess, Inbox

C_CALLS = (
    "llama_decode",
    "llama_sampler_sample",
    "llama_memory_seq_cp",
    "llama_memory_seq_rm",
    "llama_sampler_init_dist",
    "llama_sampler_chain_add",
    "llama_sampler_chain_remove",
    "llama_sampler_free",
)
"""What a step of plain answers calls."""
PROMPT_TOKENS = 32


class CallTime:
    """CPU seconds of this thread inside the library."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def watch(self, names: tuple[str, ...]) -> None:
        for name in names:
            setattr(api, name, self._timed(getattr(api, name)))

    def _timed(self, call: Callable[..., Any]) -> Callable[..., Any]:
        def timed(*arguments: Any) -> Any:
            started = time.thread_time()
            result = call(*arguments)
            self.seconds += time.thread_time() - started
            return result

        return timed


def choice(slots: int, steps: int) -> Choice:
    cells = slots * (PROMPT_TOKENS + steps + 64)
    return Choice(
        context_length=4096,
        slots=slots,
        cells=-(-cells // CELL_PADDING) * CELL_PADDING,
        kv_type_k="f16",
        kv_type_v="f16",
        gpu_layers=0,
        batch=512,
        ubatch=512,
        swa_full=True,
        flash_attention=True,
        threads=os.cpu_count() or 1,
    )


def start(model: str, slots: int, steps: int, temperature: float) -> EngineProcess:
    """An engine whose answers are all under way; its frames go to a file that keeps nothing."""
    from edgekv.llama.backend import LlamaLibrary

    inbox: Inbox = SimpleQueue()
    process, nowhere = psutil.Process(), os.open(os.devnull, os.O_WRONLY)

    def send(frame: EngineFrame) -> None:
        assert isinstance(frame, Opened) or not hasattr(frame, "error"), frame
        os.write(nowhere, encode(frame))

    engine = EngineProcess(
        LlamaLibrary(()), inbox, send, resident_bytes=lambda: int(process.memory_info().rss)
    )
    inbox.put(Open(0, Opening(model, choice(slots, steps))))
    for number in range(slots):
        prompt = TokenPrompt(tuple(Token(1000 + number) for _ in range(PROMPT_TOKENS)))
        sampling = SamplingParams(temperature=temperature, seed=number)
        inbox.put(Submit(RequestId(str(number)), prompt, None, sampling, ignore_end=True))
    for _ in range(8):
        engine.turn()
    return engine


def measure(model: str, slots: int, steps: int, temperature: float) -> dict[str, float]:
    engine = start(model, slots, steps, temperature)
    calls = CallTime()
    calls.watch(C_CALLS)
    started_wall, started = time.perf_counter(), time.thread_time()
    for _ in range(steps):
        engine.turn()
    wall, spent = time.perf_counter() - started_wall, time.thread_time() - started
    own = spent - calls.seconds
    return {
        f"step_ms_at_{slots}": round(1000 * wall / steps, 3),
        f"python_ms_at_{slots}": round(1000 * own / steps, 3),
        f"python_share_at_{slots}": round(own / wall, 4),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description="EdgeKV's own part of a step.")
    parser.add_argument("--model", required=True)
    parser.add_argument("--slots", type=int, default=16)
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--temperature", type=float, default=0.0)
    options = parser.parse_args()
    result = measure(options.model, options.slots, options.steps, options.temperature)
    report("python_share", options.model, dict[str, object](result))


if __name__ == "__main__":
    main()
