"""Answers that come too late, or half in time, on a loop whose clock the test sets."""

from __future__ import annotations

import asyncio

import pytest

from edgekv.core.events import AnswerEvent, AnswerStream, Delta, Finished, FinishReason, Started
from edgekv.core.request import RequestId, Token
from edgekv.errors import DeadlineExceeded
from edgekv.service.deadline import until

NAME = RequestId("late")
STARTED, END = Started(NAME, 3, 0), Finished(NAME, FinishReason.STOP, 2)
SECONDS = 10.0


def delta(number: int) -> Delta:
    return Delta(NAME, f"{number} ", number, (Token(number),))


class SetClock(asyncio.SelectorEventLoop):
    now = 0.0

    def time(self) -> float:
        return self.now


class Answer:
    """Tells its events at once, then takes `pause` seconds before the rest."""

    def __init__(self, before: list[Started | Delta], pause: float) -> None:
        self.before, self.pause, self.is_closed = before, pause, False

    async def tell(self) -> AnswerStream:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, SetClock)
        try:
            for event in self.before:
                yield event
            loop.now += self.pause
            if loop.now >= SECONDS:
                await asyncio.Event().wait()
            yield delta(len(self.before))
            yield END
        finally:
            self.is_closed = True


async def all_of(events: AnswerStream) -> list[AnswerEvent]:
    return [event async for event in events]


def run(answer: Answer) -> list[AnswerEvent]:
    with asyncio.Runner(loop_factory=SetClock) as runner:
        events = runner.run(all_of(until(SECONDS, NAME, answer.tell())))
    assert answer.is_closed
    return events


def test_an_answer_in_time_is_told_as_it_is() -> None:
    assert run(Answer([STARTED, delta(1)], pause=9)) == [STARTED, delta(1), delta(2), END]


def test_an_answer_that_has_begun_ends_as_if_it_were_long_enough() -> None:
    cut = Finished(NAME, FinishReason.LENGTH, 2)
    assert run(Answer([STARTED, delta(1), delta(2)], pause=11)) == [
        STARTED,
        delta(1),
        delta(2),
        cut,
    ]


@pytest.mark.parametrize("before", [[], [STARTED]])
def test_an_answer_that_has_not_begun_fails(before: list[Started | Delta]) -> None:
    answer = Answer(before, pause=11)
    with pytest.raises(DeadlineExceeded, match="allow it more"):
        run(answer)
    assert answer.is_closed
