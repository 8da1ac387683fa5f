"""How many prompt tokens a set of conversations needs computed if no prefix is computed twice."""

from __future__ import annotations

from edgekv.budget.wish import Wish
from edgekv.core.request import Token
from edgekv.service.chat import ChatFormat
from edgekv.service.messages import Message
from edgekv.service.worker import Worker


async def token_lists(model: str, chats: list[list[Message]]) -> list[tuple[Token, ...]]:
    """The tokens of each chat's prompt, from the model's own template and vocabulary."""
    worker = Worker(model, Wish(context_length=512, slots=1))
    await worker.start()
    assert worker.facts is not None
    chat_format = ChatFormat(worker.facts)
    prompts = [await chat_format.prompt(chat) for chat in chats]
    tokens = [await worker.tokenize(prompt.segments) for prompt in prompts]
    await chat_format.close()
    await worker.close()
    return tokens


def necessary_tokens(prompts: list[tuple[Token, ...]]) -> int:
    """Distinct prefixes of all prompts together, and each prompt's last token.

    The last token of a prompt is always computed, to have logits to sample from.
    """
    distinct = {prompt[:end] for prompt in prompts for end in range(1, len(prompt))}
    return len(distinct) + len(prompts)
