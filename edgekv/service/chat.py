"""A conversation → the prompt that this model was trained to continue, and how to read its answer.

chat_format = ChatFormat(facts)
prompt = await chat_format.prompt([Message("user", "Hello")])
reader = chat_format.reader(prompt)
await chat_format.close()
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from edgekv.core.plan import ModelFacts
from edgekv.core.request import Segment, TextPrompt
from edgekv.errors import InvalidValue
from edgekv.service.control_texts import ControlTexts, StandIns
from edgekv.service.dialects import dialect_of
from edgekv.service.messages import Message
from edgekv.service.pieces import AnswerReader
from edgekv.service.templates import TemplateRenderer
from edgekv.service.tool_words import as_listed, introduced, without_calls
from edgekv.service.tools import Tool, schemas_of
from edgekv.service.turn_formats import template_of

PROMPT_END = 64
"""Characters of a prompt that show whether it has opened a thought."""


class ChatFormat:
    """One model's chat template and control texts. Starts a process with the first prompt."""

    def __init__(self, facts: ModelFacts) -> None:
        self._template = template_of(facts)
        self._renderer = TemplateRenderer(self._template)
        self._controls = ControlTexts(facts.control_texts)
        self._marks = {"bos_token": facts.bos_text, "eos_token": facts.eos_text}
        self._dialect = dialect_of(self._template)
        self.shows_controls = self._dialect.is_marked_by(facts.control_texts)
        """Answers can be read only with their control tokens spelled out."""

    def knows(self, option: str) -> bool:
        """Whether the template asks for that variable."""
        return re.search(rf"\b{option}\b", self._template) is not None

    async def prompt(
        self,
        messages: Sequence[Message],
        tools: Sequence[Tool] = (),
        options: Mapping[str, Any] | None = None,
    ) -> TextPrompt:
        """The text up to where the model's next answer begins, or goes on: the last message may be
        the beginning of one.

        Control tokens can only come from the template; in a message they stay the text they are.
        `options` are more variables for the template. Raises `InvalidValue` if the template
        refuses the messages.
        """
        *before, last = messages
        if before and last.role == "assistant" and not last.tool_calls:
            return self._begun(await self.prompt(before, tools, options), last)
        if not self.knows("tools"):
            if not self.knows("tool_calls"):
                messages = list(without_calls(messages))
            messages, tools = introduced(messages, tools), ()
        words = _words([messages, tools])
        stand_ins = StandIns(self._controls, taken=self._template + words)
        text = await self._renderer.render(
            {
                "messages": [_as_template_sees(message, stand_ins) for message in messages],
                # What transformers sets, so that templates find what they were tried with.
                "tools": [stand_ins.hide(as_listed(tool)) for tool in tools] or None,
                "documents": None,
                "add_generation_prompt": True,
                **self._marks,
                **(options or {}),
            }
        )
        if not text:
            raise InvalidValue("messages", "The model's chat template wrote nothing for these.")
        return TextPrompt(stand_ins.segments(text))

    def _begun(self, prompt: TextPrompt, answer: Message) -> TextPrompt:
        """`prompt` with the beginning of its answer, past its thoughts."""
        end = prompt.segments[-1].text.rstrip()
        thought = next((t for t in self._dialect.thoughts if end.endswith(t.open)), None)
        told = [Segment(answer.content, control=False)]
        if thought is not None:
            close = Segment(f"\n{thought.close}\n\n", control=True)
            told = [Segment(answer.thought, control=False), close, *told]
        return TextPrompt((*prompt.segments, *told))

    def reader(self, prompt: TextPrompt, tools: Sequence[Tool] = ()) -> AnswerReader:
        """For one answer to a prompt of `prompt`."""
        return self._dialect.reader(prompt.segments[-1].text[-PROMPT_END:], schemas_of(tools))

    async def close(self) -> None:
        await self._renderer.close()


def _words(said: object) -> str:
    """Everything that was said, in one string."""
    try:
        return msgspec.json.encode(said).decode()
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
    if message.thought:
        written["reasoning_content"] = hide(message.thought)
    return written
