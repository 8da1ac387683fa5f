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
"""Of silence. A machine that other programs keep busy takes long, and one that is silent so long
has stopped."""


async def examine_by_trying(model: Path) -> Finding:
    """Answer twice at once with the model in that file."""
    worker = Worker(
        str(model), Wish(context_length=CELLS, slots=2, cells=CELLS), Conduct(disk_cache_bytes=0)
    )
    began = time.perf_counter()
    try:
        await worker.start()
        loaded = time.perf_counter() - began
        async with asyncio.timeout(SECONDS) as silence:
            answered = await asyncio.gather(
                _answer(worker, "a", 1000, silence), _answer(worker, "b", 1500, silence)
            )
        return _judge(worker, model, answered, loaded)
    except TimeoutError:
        return fault(
            "self-test",
            f"{model.name} gave no sign of life for {SECONDS:g} seconds",
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


async def _answer(
    worker: Worker, name: str, first: int, silence: asyncio.Timeout
) -> tuple[int, float]:
    """Tokens of the answer, and seconds a token took once there was one. Each event ends the
    silence, which begins anew.
    """
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
        silence.reschedule(asyncio.get_running_loop().time() + SECONDS)
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
