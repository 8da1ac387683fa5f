"""Prompts that end with the beginning of an answer, for the model to go on with."""

from __future__ import annotations

import pytest

from edgekv.core.request import TextPrompt
from edgekv.service.chat import ChatFormat
from edgekv.service.messages import Message, ToolCall
from tests.unit.test_templates import CHATML, facts, plain, whole

pytestmark = pytest.mark.anyio

SING = Message("user", "Sing.")


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


async def prompt(template: str, last: Message) -> TextPrompt:
    chat_format = ChatFormat(facts(template))
    try:
        return await chat_format.prompt([SING, last])
    finally:
        await chat_format.close()


async def test_an_answer_that_was_begun_goes_on() -> None:
    begun = await prompt(CHATML, Message("assistant", "La <|im_end|>"))
    assert whole(begun).endswith("Sing.<|im_end|>\n<|im_start|>assistant\nLa <|im_end|>")
    # What looks like the end of a turn is none.
    assert plain(begun) == ["La <|im_end|>"]


async def test_a_call_is_a_whole_answer() -> None:
    called = Message("assistant", "", tool_calls=(ToolCall("1", "sing", {}),))
    assert whole(await prompt(CHATML, called)).endswith("<|im_start|>assistant\n")


async def test_an_answer_that_was_begun_goes_on_behind_its_thoughts() -> None:
    template = "{{ messages[0].content }} {{ '<think>\\n' }}"
    begun = await prompt(template, Message("assistant", "La", thought="Hm."))
    assert whole(begun) == "Sing. <think>\nHm.\n</think>\n\nLa"
    assert plain(begun) == ["Hm.", "La"]
