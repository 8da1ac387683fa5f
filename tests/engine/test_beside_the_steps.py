"""Grammars are compiled and texts embedded beside the answers, not before them."""

from __future__ import annotations

import math

import pytest
from msgspec.structs import replace

from edgekv.core.events import Delta, Failed, Finished, FinishReason, Started, StreamEvent
from edgekv.core.frames import (
    Accepted,
    Cancel,
    CheckGrammar,
    Embed,
    Embedded,
    EngineFrame,
    Open,
    Refused,
    StepFrame,
)
from edgekv.core.request import Grammar, RequestId, SamplingParams, Token
from edgekv.errors import InvalidValue
from tests.cell_backend import CellBackend
from tests.engine.test_process import OPENING, Front, ask, text_of
from tests.fakes import FakeLibrary

ANSWER = "Grüße, 世界!"
DIGITS, LETTERS = Grammar("regex", "[0-9]+"), Grammar("regex", "[a-z]+")
SLOTS = OPENING.choice.slots
HELD = SamplingParams(grammar=DIGITS)


class Opened(Front):
    """A front whose engine has a model open."""

    def __init__(self) -> None:
        library = FakeLibrary(answer=ANSWER)
        super().__init__(library)
        self.turn(Open(1, OPENING))
        self.backend: CellBackend = library.backends[-1]


@pytest.fixture
def front() -> Opened:
    return Opened()


def events_in(frames: list[EngineFrame]) -> list[StreamEvent]:
    return [event for f in frames if isinstance(f, StepFrame) for event in f.events]


def test_a_grammar_is_accepted_after_it_was_compiled_and_at_once_from_then_on(
    front: Opened,
) -> None:
    assert front.turn(CheckGrammar(1, DIGITS)) == []
    assert front.turn() == [Accepted(1)]
    assert front.turn(CheckGrammar(2, DIGITS)) == [Accepted(2)]


def test_a_grammar_that_cannot_be_followed_is_refused_with_the_reason(front: Opened) -> None:
    front.backend.refusals[DIGITS] = InvalidValue("response_format", "No digits here.")
    front.turn(CheckGrammar(1, DIGITS), ask("a", sampling=HELD))
    refused, frame = front.turn()
    assert isinstance(refused, Refused)
    assert (refused.call, refused.error.param) == (1, "response_format")
    assert isinstance(frame, StepFrame)
    [failed] = frame.events
    assert isinstance(failed, Failed)
    assert failed.error.message == "No digits here."


def test_answers_go_on_while_a_grammar_is_compiled(front: Opened) -> None:
    front.backend.may_compile.clear()
    front.say(ask("constrained", sampling=HELD))
    [events] = front.answers(ask("plain")).values()
    assert text_of(events) == ANSWER
    front.backend.may_compile.set()
    told = events_in(front.turn())
    while not any(isinstance(event, Finished) for event in told):
        told += events_in(front.turn())
    assert isinstance(told[0], Started)
    assert text_of(told) == ANSWER


def test_a_request_that_waits_for_its_grammar_can_be_cancelled(front: Opened) -> None:
    front.backend.may_compile.clear()
    front.turn(ask("a", sampling=HELD, generated=(Token(65),)))
    events = events_in(front.turn(Cancel(RequestId("a"))))
    assert events == [Finished(RequestId("a"), FinishReason.CANCELLED, num_generated=1)]
    front.backend.may_compile.set()
    assert front.turn() == [], "nobody waits for the grammar any more"


def test_opening_another_model_answers_whoever_waits_beside_the_steps(front: Opened) -> None:
    front.backend.may_compile.clear()
    front.turn(CheckGrammar(2, LETTERS), CheckGrammar(3, DIGITS), ask("a", sampling=HELD))
    front.say(Embed(4, ((Token(65),),)), Open(5, OPENING))
    front.backend.may_compile.set()
    frames = front.turn()
    assert Finished(RequestId("a"), FinishReason.CANCELLED, 0) in events_in(frames)
    refused = {f.call: f.error.code for f in frames if isinstance(f, Refused)}
    assert refused == {2: "not_ready", 3: "not_ready", 4: "not_ready"}


def test_what_another_model_said_of_a_grammar_does_not_count(front: Opened) -> None:
    front.backend.may_compile.clear()
    front.backend.refusals[DIGITS] = InvalidValue("response_format", "No digits here.")
    front.turn(CheckGrammar(1, DIGITS))
    front.say(Open(2, OPENING), CheckGrammar(3, DIGITS))
    front.backend.may_compile.set()
    replies: list[Accepted | Refused] = []
    while Accepted(3) not in replies:
        replies += [frame for frame in front.turn() if isinstance(frame, Accepted | Refused)]
    assert [reply.call for reply in replies] == [1, 3], "each call has one reply"


def test_a_request_keeps_its_grammar_ready_until_it_ends(front: Opened) -> None:
    running = [ask(str(i), sampling=HELD) for i in range(SLOTS)]
    front.turn(*running, ask("waits", sampling=HELD))
    told = events_in(front.turn(CheckGrammar(9, LETTERS)))
    while sum(isinstance(event, Finished) for event in told) <= SLOTS:
        told += events_in(front.turn())
    assert not any(isinstance(event, Failed) for event in told)


def test_an_answer_whose_grammar_is_at_a_loss_fails_alone(front: Opened) -> None:
    front.turn(CheckGrammar(1, DIGITS))
    front.turn()
    front.backend.loses_way_at = 3
    answers = front.answers(ask("lost", sampling=HELD), ask("plain"))
    failed = answers[RequestId("lost")][-1]
    assert isinstance(failed, Failed)
    assert failed.error.message == "The grammar lost its way."
    assert text_of(answers[RequestId("plain")]) == ANSWER
    front.backend.loses_way_at = None
    [events] = front.answers(ask("again", sampling=HELD)).values()
    assert text_of(events) == ANSWER


@pytest.mark.parametrize("limit", [4, 5])
def test_an_answer_that_nothing_may_come_after_is_complete(front: Opened, limit: int) -> None:
    front.turn(CheckGrammar(1, DIGITS))
    front.turn()
    front.backend.completes_at = len(ANSWER[:3].encode())
    [events] = front.answers(ask("a", sampling=HELD, max_tokens=limit)).values()
    assert text_of(events) == ANSWER[:3]
    assert events[-1] == Finished(RequestId("a"), FinishReason.STOP, 4)
    [cut] = front.answers(ask("b", sampling=HELD, max_tokens=2)).values()
    assert cut[-1] == Finished(RequestId("b"), FinishReason.LENGTH, 2)


def test_a_grammar_and_going_on_past_the_end_exclude_each_other(front: Opened) -> None:
    front.turn(CheckGrammar(1, DIGITS))
    front.turn()
    [[failed]] = front.answers(ask("a", sampling=HELD, ignore_end=True)).values()
    assert isinstance(failed, Failed)
    assert failed.error.param == "ignore_eos"


def test_each_token_told_comes_with_its_log_probability_if_asked_for(front: Opened) -> None:
    [events] = front.answers(ask("a", sampling=SamplingParams(top_logprobs=2))).values()
    deltas = [event for event in events if isinstance(event, Delta)]
    for delta in deltas:
        assert tuple(told.token for told in delta.logprobs) == delta.tokens
        assert all(len(told.top) == 2 for told in delta.logprobs)
    assert b"".join(t.text for d in deltas for t in d.logprobs).decode() == ANSWER
    [events] = front.answers(ask("b")).values()
    assert not any(event.logprobs for event in events if isinstance(event, Delta))


def test_vectors_come_in_the_order_of_their_texts(front: Opened) -> None:
    one, other = (Token(65),), (Token(66), Token(67))
    front.turn(Embed(1, (one, other, one)))
    front.turn()
    [embedded] = front.turn()
    assert isinstance(embedded, Embedded)
    first, second, third = embedded.vectors
    assert first == third != second
    assert all(math.isclose(math.hypot(*vector), 1) for vector in embedded.vectors)
    assert front.turn(Embed(2, ())) == [Embedded(2, ())]


def test_an_answer_waits_for_one_text_at_most(front: Opened) -> None:
    texts = ((Token(65),), (Token(66),))
    front.say(ask("a"), Embed(1, texts))
    [frame] = front.turn()
    assert isinstance(frame, StepFrame)
    embedded, frame = front.turn()
    assert isinstance(embedded, Embedded)
    assert isinstance(frame, StepFrame)


@pytest.mark.parametrize("text", [(), (Token(10**6),)])
def test_a_text_that_cannot_be_embedded_refuses_its_call_only(
    front: Opened, text: tuple[Token, ...]
) -> None:
    front.turn(Embed(1, ((Token(65),), text)), Embed(2, ((Token(65),),)))
    [refused] = front.turn()
    assert isinstance(refused, Refused)
    assert (refused.call, refused.error.code) == (1, "invalid_value")
    [embedded] = front.turn()
    assert isinstance(embedded, Embedded)


def test_a_rebuilt_answer_waits_for_its_grammar_too(front: Opened) -> None:
    so_far = tuple(map(Token, "Grüße".encode()))
    submit = replace(ask("a", sampling=HELD), generated=so_far)
    [events] = front.answers(submit).values()
    assert text_of(events) == ANSWER.removeprefix("Grüße")
