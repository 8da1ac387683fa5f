"""The formats of models that bring no chat template, chosen by the marks in their vocabulary."""

from __future__ import annotations

import pytest

from edgekv.service.chat import ChatFormat
from edgekv.service.messages import Message
from edgekv.service.turn_formats import PLAIN, template_of
from tests.unit.test_templates import MARKS, facts, named, whole

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


GEMMA_MARKS = ("<start_of_turn>", "<end_of_turn>", "<bos>")


@pytest.mark.parametrize(
    ("marks", "text"),
    [
        (
            GEMMA_MARKS,
            "<start_of_turn>user\nBe brief.\n\nHi<end_of_turn>\n<start_of_turn>model\nYes"
            "<end_of_turn>\n<start_of_turn>user\nWell?<end_of_turn>\n<start_of_turn>model\n",
        ),
        (
            MARKS,
            "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n"
            "<|im_start|>assistant\nYes<|im_end|>\n<|im_start|>user\nWell?<|im_end|>\n"
            "<|im_start|>assistant\n",
        ),
        (
            ("<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"),
            "<|start_header_id|>system<|end_header_id|>\n\nBe brief.<|eot_id|>"
            "<|start_header_id|>user<|end_header_id|>\n\nHi<|eot_id|>"
            "<|start_header_id|>assistant<|end_header_id|>\n\nYes<|eot_id|>"
            "<|start_header_id|>user<|end_header_id|>\n\nWell?<|eot_id|>"
            "<|start_header_id|>assistant<|end_header_id|>\n\n",
        ),
        ((), "System: Be brief.\n\nUser: Hi\n\nAssistant: Yes\n\nUser: Well?\n\nAssistant:"),
    ],
)
async def test_a_model_without_a_template_gets_the_format_of_its_vocabulary(
    marks: tuple[str, ...], text: str
) -> None:
    chat_format = ChatFormat(facts(None, marks))
    messages = [
        Message("system", "Be brief."),
        Message("user", "Hi"),
        Message("assistant", "Yes"),
        Message("user", "Well?"),
    ]
    try:
        assert whole(await chat_format.prompt(messages)) == text
    finally:
        await chat_format.close()


@pytest.mark.parametrize("template", [None, named("empty"), " \n"])
def test_a_missing_or_empty_template_is_said(
    template: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    assert template_of(facts(template, ())) == PLAIN
    assert "no chat template" in caplog.text
