"""A conversation's values, and an answer's way from the worker to whoever draws it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import aclosing

import pytest

from edgekv.core.events import Delta, Finished, FinishReason, Started
from edgekv.core.request import RequestId, SamplingParams
from edgekv.errors import PromptTooLong
from edgekv.service.conversation import AnswerPart, AnswerStats, ChatModel, Conversation, Habits
from edgekv.service.messages import Message
from tests.tui.fakes import PlainFormat, Script, ScriptedWorker, asked

ID = RequestId("r")


def a_clock(*times: float) -> Callable[[], float]:
    ticks: Iterator[float] = iter(times)
    return lambda: next(ticks)


async def parts_of(
    worker: ScriptedWorker, conversation: Conversation, clock: Callable[[], float]
) -> list[AnswerPart]:
    model = ChatModel(worker, PlainFormat, clock)
    await model.start()
    return [part async for part in model.answer(conversation)]


def test_asking_and_replying_make_new_conversations_and_change_none() -> None:
    empty = Conversation()
    question = empty.ask("Why?")
    full = question.reply("Because.")
    assert empty.messages == ()
    assert [(m.role, m.content) for m in full.messages] == [
        ("user", "Why?"),
        ("assistant", "Because."),
    ]
    assert full.last_answer == "Because."
    assert question.last_answer is None


def test_the_prompt_holds_every_message_with_its_exact_text() -> None:
    worker = ScriptedWorker(Script())
    conversation = Conversation().ask("one\x1b[2J").reply("two").ask("three")
    asyncio.run(parts_of(worker, conversation, a_clock(0, 1, 2, 3, 4)))
    assert asked(worker.submits[0]) == ["user: one\x1b[2J", "assistant: two", "user: three"]


def test_habits_hold_for_every_answer_unless_its_conversation_says_otherwise() -> None:
    async def prompts() -> list[list[str]]:
        worker = ScriptedWorker(Script(), Script())
        habits = Habits("Be brief.", SamplingParams(temperature=0))
        model = ChatModel(worker, PlainFormat, habits=habits)
        await model.start()
        own = Conversation((Message("system", "Be long."),))
        for conversation in (Conversation(), own):
            async with aclosing(model.answer(conversation.ask("?"))) as parts:
                async for _ in parts:
                    pass
        assert [submit.sampling.temperature for submit in worker.submits] == [0, 0]
        return [asked(submit) for submit in worker.submits]

    assert asyncio.run(prompts()) == [
        ["system: Be brief.", "user: ?"],
        ["system: Be long.", "user: ?"],
    ]


def test_an_answer_comes_as_parts_whose_texts_join_to_it_and_whose_last_has_the_reason() -> None:
    worker = ScriptedWorker(Script(words=("It", " is", " so.")))
    parts = asyncio.run(
        parts_of(worker, Conversation().ask("?"), a_clock(10.0, 10.1, 10.5, 11.0, 11.5, 12.0))
    )
    assert "".join(part.text for part in parts) == "It is so."
    assert [part.stats.reason for part in parts] == [None] * 4 + [FinishReason.STOP]
    last = parts[-1].stats
    assert (last.num_prompt, last.num_reused, last.num_generated, last.num_held) == (40, 31, 3, 43)
    assert last.first_token_seconds == pytest.approx(0.5)
    assert last.tokens_per_second == pytest.approx(2 / 1.0)


def test_speed_is_not_known_before_the_second_piece_of_text() -> None:
    stats = AnswerStats().after(Started(ID, 10, 0), 0.2)
    assert stats.tokens_per_second is None
    stats = stats.after(Delta(ID, "a", 3), 0.5)
    assert stats.tokens_per_second is None
    assert stats.after(Delta(ID, "b", 5), 1.5).tokens_per_second == pytest.approx(2.0)


def test_time_between_the_last_token_and_the_end_does_not_slow_the_figure() -> None:
    stats = AnswerStats().after(Delta(ID, "a", 1), 1.0).after(Delta(ID, "b", 11), 2.0)
    stats = stats.after(Finished(ID, FinishReason.LENGTH, 11), 9.0)
    assert stats.tokens_per_second == pytest.approx(10.0)
    assert stats.reason is FinishReason.LENGTH


def test_closing_an_answer_early_ends_the_request_at_once() -> None:
    async def stop_after_one_word() -> bool:
        script = Script(words=("a", "b", "c"))
        model = ChatModel(ScriptedWorker(script), PlainFormat)
        await model.start()
        async with aclosing(model.answer(Conversation().ask("?"))) as parts:
            async for part in parts:
                if part.text:
                    break
        return script.was_closed.is_set()

    assert asyncio.run(stop_after_one_word())


def test_a_prompt_that_is_too_long_raises_before_any_part() -> None:
    worker = ScriptedWorker(Script(words=(), error=PromptTooLong(9000, 8192)))
    with pytest.raises(PromptTooLong, match=r"9000 tokens .* 8192"):
        asyncio.run(parts_of(worker, Conversation().ask("?"), a_clock(0, 1)))


def test_thoughts_come_apart_from_words() -> None:
    worker = ScriptedWorker(Script(words=("<thi", "nk>Hm.", "</think>", "So", " it is.")))
    worker.chat_template = "<think>"
    parts = asyncio.run(parts_of(worker, Conversation().ask("?"), a_clock(*range(9))))
    assert "".join(part.thought for part in parts) == "Hm."
    assert "".join(part.text for part in parts) == "So it is."
