"""How many prompt tokens conversations need computed if nothing is computed twice."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from bench.clients import Answer
from edgekv.budget.wish import Wish
from edgekv.core.request import Token
from edgekv.service.chat import ChatFormat
from edgekv.service.messages import Message
from edgekv.service.worker import Worker


@dataclass(slots=True)
class Known:
    """Every beginning of every token list so far, as a tree."""

    _root: dict[Token, Any] = field(default_factory=dict)

    def add(self, tokens: Sequence[Token]) -> int:
        """How many of the tokens were not known behind those before them."""
        node, num_new = self._root, 0
        for token in tokens:
            if token not in node:
                node[token] = {}
                num_new += 1
            node = node[token]
        return num_new


async def necessary_tokens(
    model: str,
    exchanges: Sequence[tuple[list[Message], Answer | None]],
    before: Sequence[list[Message]] = (),
) -> int:
    """What is new in each prompt, by the model's own template and vocabulary.

    `before` are prompts that were asked first and are not counted.

    Answers have cells too, so a prompt that goes on from one needs only what was added. The last
    token of a prompt is always computed, to have logits to sample from.
    """
    worker = Worker(model, Wish(context_length=512, slots=1))
    await worker.start()
    assert worker.facts is not None
    chat_format = ChatFormat(worker.facts)

    async def tokens(chat: list[Message]) -> tuple[Token, ...]:
        return await worker.tokenize((await chat_format.prompt(chat)).segments)

    known, necessary = Known(), 0
    for chat in before:
        known.add(await tokens(chat))
    for chat, answer in exchanges:
        necessary += max(1, known.add(await tokens(chat)))
        if answer is not None:
            known.add(await tokens([*chat, Message("assistant", answer.text)]))
    await chat_format.close()
    await worker.close()
    return necessary
