"""Requests over engines that die: an engine here is a script of what each attempt does."""

from __future__ import annotations

import asyncio
from collections.abc import Generator

import pytest

from edgekv.core.events import AnswerStream, Delta, Finished, FinishReason, Started
from edgekv.core.frames import Submit
from edgekv.core.request import RequestId, Token, TokenPrompt
from edgekv.errors import EngineDied
from edgekv.service.recovery import Recovery

LENGTH = 12
"""Tokens of every answer: 0, 1, 2, …"""


class OthersRun:
    """Awaiting it lets every other task run once."""

    def __await__(self) -> Generator[None]:
        yield


class Engine:
    """Answers with consecutive tokens; one request is deadly once it has `deadly_after` tokens.

    It may show so many more than it began with each time. Its death takes every request that is
    running with it.
    """

    def __init__(
        self, deadly: str | None = None, deadly_after: int = 0, shown_first: int = 0
    ) -> None:
        self.deadly, self.deadly_after, self.shown_first = deadly, deadly_after, shown_first
        self.death = asyncio.Event()
        self.num_deaths = self.num_attempts = 0
        self.most_at_once = 0
        self.running: set[str] = set()

    async def attempt(self, submit: Submit) -> AnswerStream:
        death, name = self.death, submit.request_id
        self.running.add(name)
        self.num_attempts += 1
        self.most_at_once = max(self.most_at_once, len(self.running))
        try:
            yield Started(submit.request_id, 1, 0)
            for token in range(len(submit.generated), LENGTH):
                for _ in range(3):  # others get their turns
                    await OthersRun()
                    self.die_if_deadly(submit, token, death)
                yield Delta(submit.request_id, f"{token} ", token + 1, (Token(token),))
            yield Finished(submit.request_id, FinishReason.LENGTH, LENGTH)
        finally:
            self.running.discard(name)

    def die_if_deadly(self, submit: Submit, token: int, death: asyncio.Event) -> None:
        deadly_at = max(self.deadly_after, len(submit.generated) + self.shown_first)
        if death is self.death and submit.request_id == self.deadly and token >= deadly_at:
            self.kill()
        if death.is_set():
            raise EngineDied("gone")

    def kill(self) -> None:
        self.num_deaths += 1
        self.death.set()
        self.death = asyncio.Event()


def submit(name: str) -> Submit:
    return Submit(RequestId(name), TokenPrompt((Token(1),)))


async def answer(recovery: Recovery, engine: Engine, name: str) -> str | EngineDied:
    text, num_starts, num_ends = "", 0, 0
    try:
        async for event in recovery.stream(submit(name), engine.attempt):
            text += event.text if isinstance(event, Delta) else ""
            num_starts += isinstance(event, Started)
            num_ends += isinstance(event, Finished)
    except EngineDied as death:
        return death
    assert (num_starts, num_ends) == (1, 1)
    return text


def all_answers(engine: Engine, names: str) -> dict[str, str | EngineDied]:
    async def run() -> dict[str, str | EngineDied]:
        recovery = Recovery()
        answers = await asyncio.gather(*(answer(recovery, engine, name) for name in names))
        assert not recovery._suspects
        assert not recovery._line.locked()
        return dict(zip(names, answers, strict=True))

    return asyncio.run(run())


WHOLE = "".join(f"{token} " for token in range(LENGTH))


def test_without_a_death_all_run_together() -> None:
    engine = Engine()
    assert set(all_answers(engine, "abc").values()) == {WHOLE}
    assert engine.most_at_once == 3


@pytest.mark.parametrize("after", range(LENGTH))
def test_a_deadly_request_fails_alone_and_the_others_lose_nothing(after: int) -> None:
    engine = Engine(deadly="b", deadly_after=after)
    answers = all_answers(engine, "abcd")
    guilty = answers.pop("b")
    assert isinstance(guilty, EngineDied)
    assert "on nothing else" in str(guilty)
    assert set(answers.values()) == {WHOLE}
    assert 2 <= engine.num_deaths <= 3


@pytest.mark.parametrize("shown", [1, 2])
@pytest.mark.parametrize("names", ["abcd", "bacd", "cdab"])
def test_one_that_shows_tokens_before_each_death_is_found_all_the_same(
    names: str, shown: int
) -> None:
    engine = Engine(deadly="a", shown_first=shown)
    answers = all_answers(engine, names)
    guilty = answers.pop("a")
    assert isinstance(guilty, EngineDied)
    assert "on nothing else" in str(guilty)
    assert set(answers.values()) == {WHOLE}
    assert engine.num_deaths <= 4


def test_deaths_from_outside_while_others_run_beside_are_nobodys_fault() -> None:
    """The head of the line shows nothing yet when the engine is killed again, but another runs."""

    async def run() -> list[str | EngineDied]:
        engine, recovery = Engine(), Recovery()
        tasks = [asyncio.create_task(answer(recovery, engine, name)) for name in "ab"]
        for _ in range(8):
            await OthersRun()
        engine.kill()
        while engine.num_attempts < 4:
            await OthersRun()
        assert engine.running == {"a", "b"}
        engine.kill()
        return list(await asyncio.gather(*tasks))

    assert asyncio.run(run()) == [WHOLE] * 2


def test_one_death_from_outside_costs_nobody_anything() -> None:
    async def run() -> list[str | EngineDied]:
        engine, recovery = Engine(), Recovery()
        tasks = [asyncio.create_task(answer(recovery, engine, name)) for name in "abc"]
        for _ in range(8):
            await OthersRun()
        engine.kill()
        return list(await asyncio.gather(*tasks))

    assert asyncio.run(run()) == [WHOLE] * 3


def test_a_newcomer_is_not_blamed_for_the_first_death_it_sees() -> None:
    """It waits in the line of the suspects, and the engine is killed again as soon as it runs."""

    async def run() -> list[str | EngineDied]:
        engine, recovery = Engine(), Recovery()
        tasks = [asyncio.create_task(answer(recovery, engine, "a"))]
        await OthersRun()
        engine.kill()
        while not recovery._suspects:
            await OthersRun()
        tasks.append(asyncio.create_task(answer(recovery, engine, "newcomer")))
        while "newcomer" not in engine.running:
            await OthersRun()
        engine.kill()
        return list(await asyncio.gather(*tasks))

    assert asyncio.run(run()) == [WHOLE] * 2


def test_a_caller_that_leaves_while_suspected_blocks_nobody() -> None:
    async def run() -> str | EngineDied:
        engine, recovery = Engine(), Recovery()
        leaver = asyncio.create_task(answer(recovery, engine, "a"))
        stayer = asyncio.create_task(answer(recovery, engine, "b"))
        for _ in range(8):
            await OthersRun()
        engine.kill()
        for _ in range(4):
            await OthersRun()
        leaver.cancel()
        return await stayer

    assert asyncio.run(run()) == WHOLE
