"""A conversation → the prompt that this model was trained to continue.

chat_format = ChatFormat(facts)
prompt = await chat_format.prompt([Message("user", "Hello")])
await chat_format.close()
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypeAlias

import msgspec

from edgekv.core.plan import ModelFacts
from edgekv.core.request import TextPrompt
from edgekv.errors import InvalidValue
from edgekv.service.control_texts import ControlTexts, StandIns
from edgekv.service.templates import TemplateRenderer
from edgekv.service.turn_formats import template_of

Role: TypeAlias = Literal["system", "user", "assistant", "tool"]


class ToolCall(msgspec.Struct, frozen=True):
    """A call that an earlier answer of the model asked for."""

    id: str
    name: str
    arguments: Mapping[str, Any]


class Message(msgspec.Struct, frozen=True):
    role: Role
    content: str = ""
    name: str | None = None
    tool_calls: tuple[ToolCall, ...] = ()
    tool_call_id: str | None = None
    """The call that a tool's message answers."""


class ChatFormat:
    """One model's chat template and control texts. Starts a process with the first prompt."""

    def __init__(self, facts: ModelFacts) -> None:
        self._template = template_of(facts)
        self._renderer = TemplateRenderer(self._template)
        self._controls = ControlTexts(facts.control_texts)
        self._marks = {"bos_token": facts.bos_text, "eos_token": facts.eos_text}

    async def prompt(self, messages: Sequence[Message]) -> TextPrompt:
        """The text up to where the model's next answer begins.

        Control tokens can only come from the template; in a message they stay the text they are.
        Raises `InvalidValue` if the template refuses the messages.
        """
        words = _words(messages)
        stand_ins = StandIns(self._controls, taken=self._template + words)
        text = await self._renderer.render(
            {
                "messages": [_as_template_sees(message, stand_ins) for message in messages],
                # What transformers sets, so that templates find what they were tried with.
                "tools": None,
                "documents": None,
                "add_generation_prompt": True,
                **self._marks,
            }
        )
        if not text:
            raise InvalidValue("messages", "The model's chat template wrote nothing for these.")
        return TextPrompt(stand_ins.segments(text))

    async def close(self) -> None:
        await self._renderer.close()


def _words(messages: Sequence[Message]) -> str:
    """Everything that was said, in one string."""
    try:
        return msgspec.json.encode(messages).decode()
    except UnicodeEncodeError:
        raise InvalidValue(
            "messages", "A message holds half a character (a lone surrogate); remove it."
        ) from None


def _as_template_sees(message: Message, stand_ins: StandIns) -> dict[str, Any]:
    """The shape of transformers' chat messages; what is absent is left out."""
    hide = stand_ins.hide
    written: dict[str, Any] = {"role": message.role, "content": hide(message.content)}
    if message.name is not None:
        written["name"] = hide(message.name)
    if message.tool_calls:
        written["tool_calls"] = [
            {
                "id": hide(call.id),
                "type": "function",
                "function": {"name": hide(call.name), "arguments": hide(call.arguments)},
            }
            for call in message.tool_calls
        ]
    if message.tool_call_id is not None:
        written["tool_call_id"] = hide(message.tool_call_id)
    return written
