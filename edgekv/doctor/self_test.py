"""Two answers in a pool too small for both: loaded, decoded, suspended and resumed, in a second."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from pathlib import Path

from edgekv.budget.sizes import format_size
from edgekv.budget.wish import Wish
from edgekv.core.events import Delta, Finished
from edgekv.core.frames import Submit
from edgekv.core.request import RequestId, SamplingParams, Token, TokenPrompt
from edgekv.doctor.finding import Finding, fault, fine
from edgekv.errors import EdgeKVError
from edgekv.service.conduct import Conduct
from edgekv.service.worker import Worker

CELLS = 256
"""llama.cpp rounds a pool up to so many."""
PROMPT_LENGTH, ANSWER_LENGTH = 60, 76
"""Admission counts on 64 tokens of answer, with which two of these fit; in the end they do not."""
SECONDS = 120.0
"""A machine that takes longer has stopped."""


async def examine_by_trying(model: Path) -> Finding:
    """Answer twice at once with the model in that file."""
    worker = Worker(
        str(model), Wish(context_length=CELLS, slots=2, cells=CELLS), Conduct(disk_cache_bytes=0)
    )
    began = time.perf_counter()
    try:
        async with asyncio.timeout(SECONDS):
            await worker.start()
            loaded = time.perf_counter() - began
            answered = await asyncio.gather(_answer(worker, "a", 1000), _answer(worker, "b", 1500))
            return _judge(worker, model, answered, loaded)
    except TimeoutError:
        return fault(
            "self-test",
            f"{model.name} did not answer within {SECONDS:g} seconds",
            "read the end of the engine's log; 'edgekv doctor MODEL' tries another model",
        )
    except EdgeKVError as error:
        return fault(
            "self-test",
            f"{model.name} does not run: {str(error).rstrip('.')}",
            "try another model: edgekv doctor MODEL",
        )
    finally:
        await worker.close()


async def _answer(worker: Worker, name: str, first: int) -> tuple[int, float]:
    """Tokens of the answer, and seconds a token took once there was one."""
    prompt = TokenPrompt(tuple(map(Token, range(first, first + PROMPT_LENGTH))))
    submit = Submit(
        RequestId(name),
        prompt,
        ANSWER_LENGTH,
        SamplingParams(temperature=0),
        ignore_end=True,
    )
    generated, began = 0, 0.0
    async for event in worker.stream(submit):
        if isinstance(event, Delta):
            began = began or time.perf_counter()
        if isinstance(event, Finished):
            generated = event.num_generated
    return generated, (time.perf_counter() - began) / max(1, generated - 1)


def _judge(
    worker: Worker, model: Path, answered: Sequence[tuple[int, float]], loaded: float
) -> Finding:
    num_suspensions = worker.snapshot.num_suspensions
    if [generated for generated, _ in answered] != [ANSWER_LENGTH] * 2 or not num_suspensions:
        return fault(
            "self-test",
            f"of two answers of {ANSWER_LENGTH} tokens came "
            f"{' and '.join(str(generated) for generated, _ in answered)}, "
            f"with {num_suspensions} suspensions",
            "report this with the output of 'edgekv doctor --json'",
        )
    seconds = min(seconds for _, seconds in answered)
    resident = format_size(worker.snapshot.resident_bytes)
    return fine(
        "self-test",
        f"{model.name}: loaded in {loaded:.1f} s, two answers of {ANSWER_LENGTH} tokens, one of "
        f"them suspended and resumed, about {1 / seconds:.0f} tokens/s, {resident} resident",
    )
