"""Pinned prompts on a whole worker: computed at the start, shared, and pinned again."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace

import pytest
from msgspec.structs import replace as changed

from edgekv.core.events import Started
from edgekv.core.frames import Submit
from edgekv.core.inspection import PinnedRun
from edgekv.core.request import RequestId, Segment, TextPrompt
from edgekv.errors import InvalidValue
from edgekv.service.states import State
from edgekv.service.warm import WarmPrompt
from edgekv.service.worker import Worker
from tests.server.in_loop_engine import Engines

pytestmark = pytest.mark.anyio

TEXT = "Once upon a time there was a kind robot. "
NUM_TOKENS = len(TEXT) + 1
"""A token a byte, and the start token."""


@pytest.fixture
async def warm(unstarted: tuple[Worker, Engines]) -> AsyncIterator[Worker]:
    worker, engines = unstarted
    worker.conduct = replace(worker.conduct, warm=(WarmPrompt("story", text=TEXT),))
    await worker.start()
    await engines.last.idle.wait()
    yield worker
    await worker.close()


async def pinned(worker: Worker) -> tuple[PinnedRun, ...]:
    return (await worker.inspect()).view.pinned


async def num_reused(worker: Worker, text: str) -> int:
    submit = Submit(RequestId(text), TextPrompt((Segment(text, True),)), max_tokens=2)
    [started] = [e async for e in worker.stream(submit) if isinstance(e, Started)]
    return started.num_reused


async def test_a_prompt_is_computed_before_anybody_asks(warm: Worker, engines: Engines) -> None:
    assert await pinned(warm) == (PinnedRun("story", NUM_TOKENS, NUM_TOKENS),)
    assert await num_reused(warm, TEXT + "It") == NUM_TOKENS
    assert warm.snapshot.tokens_generated == 3, "one of the pinned prompt, which nobody heard"


async def test_after_the_engine_died_a_prompt_is_pinned_once_somebody_needs_it(
    warm: Worker, engines: Engines
) -> None:
    engines.last.end(-6)
    assert await num_reused(warm, TEXT + "It") == 0
    assert await pinned(warm) == (PinnedRun("story", NUM_TOKENS, NUM_TOKENS),)
    assert await num_reused(warm, TEXT + "A robot") == NUM_TOKENS


async def test_a_prompt_that_is_too_long_stops_the_start_with_both_numbers(
    unstarted: tuple[Worker, Engines],
) -> None:
    worker, _ = unstarted
    worker.conduct = replace(worker.conduct, warm=(WarmPrompt("novel", text="x" * 600),))
    with pytest.raises(InvalidValue, match=r"'novel' has 601 tokens.* 1 to 510;.*larger --ctx"):
        await worker.start()
    assert worker.state is State.FAILED


async def test_prompts_that_take_too_much_of_the_pool_stop_the_start(
    unstarted: tuple[Worker, Engines],
) -> None:
    worker, _ = unstarted
    texts = ("x" * 400, "y" * 400)
    worker.conduct = replace(
        worker.conduct, warm=tuple(WarmPrompt(text[0], text=text) for text in texts)
    )
    with pytest.raises(InvalidValue, match=r"With 'y' the pinned prompts would take 801 cells"):
        await worker.start()


async def test_a_smaller_engine_that_has_no_room_for_a_pin_still_starts(
    warm: Worker, engines: Engines
) -> None:
    assert warm.plan is not None
    warm.plan = changed(warm.plan, choice=changed(warm.plan.choice, context_length=32))
    engines.last.end(-9)
    assert await num_reused(warm, "Hello") == 0
    assert await pinned(warm) == ()
