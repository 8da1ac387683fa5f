"""What an open model is asked beside answers: one call and its reply each."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from edgekv.core.frames import (
    CheckGrammar,
    Command,
    Detokenize,
    Embed,
    Embedded,
    Inspect,
    Inspection,
    Reply,
    Text,
    Tokenize,
    Tokens,
)
from edgekv.core.memory_frames import Restrain, Restrained, Survey, Surveyed
from edgekv.core.plan import DeviceInfo
from edgekv.core.request import Grammar, Segment, TextPrompt, Token
from edgekv.core.restraint import Restraint
from edgekv.service.engine_client import EngineClient


class Questions:
    """Asked of the engine that `client` gives, which may have been started anew."""

    def __init__(self, client: Callable[[], Awaitable[EngineClient]]) -> None:
        self._client = client

    async def tokenize(self, segments: tuple[Segment, ...]) -> tuple[Token, ...]:
        reply = await self._call(lambda call: Tokenize(call, TextPrompt(segments)))
        assert isinstance(reply, Tokens)
        return reply.tokens

    async def detokenize(self, tokens: tuple[Token, ...]) -> str:
        reply = await self._call(lambda call: Detokenize(call, tokens))
        assert isinstance(reply, Text)
        return reply.text

    async def check_grammar(self, grammar: Grammar) -> None:
        """Raises `InvalidValue` for one that no answer can be held to, `Unavailable` where none
        can be held to any.
        """
        await self._call(lambda call: CheckGrammar(call, grammar))

    async def embed(self, prompts: tuple[tuple[Token, ...], ...]) -> tuple[tuple[float, ...], ...]:
        """A vector of length 1 for each prompt. Raises as the frame `Embed` says."""
        reply = await self._call(lambda call: Embed(call, prompts))
        assert isinstance(reply, Embedded)
        return reply.vectors

    async def inspect(self) -> Inspection:
        """Who holds which cells, and what the last prompts found."""
        reply = await self._call(Inspect)
        assert isinstance(reply, Inspection)
        return reply

    async def survey(self) -> tuple[DeviceInfo, ...]:
        """What the drivers of all devices report now."""
        reply = await self._call(Survey)
        assert isinstance(reply, Surveyed)
        return reply.devices

    async def restrain(self, restraint: Restraint) -> Restrained:
        """Let the engine do without what memory is too short for, until told otherwise."""
        reply = await self._call(lambda call: Restrain(call, restraint))
        assert isinstance(reply, Restrained)
        return reply

    async def _call(self, command: Callable[[int], Command]) -> Reply:
        return await (await self._client()).call(command)
