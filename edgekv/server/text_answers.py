"""Choices of a text completion."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from edgekv.server.chat_answers import text_of
from edgekv.server.logprobs import TextLogprobs, text_logprobs
from edgekv.server.turn import Ended, EndOfTurn, Spoken
from edgekv.service.pieces import Said


class TextChoice(msgspec.Struct, frozen=True):
    index: int
    text: str
    finish_reason: EndOfTurn | None = None
    logprobs: TextLogprobs | None = None


class TextShape:
    """`echoes` are the texts of the prompts, one for each choice, to stand before the answers."""

    prompt_field = "prompt"
    id_prefix = "cmpl-"
    whole_object = chunk_object = "text_completion"

    def __init__(self, echoes: Sequence[str] | None = None) -> None:
        self._echoes = echoes

    def choice(self, index: int) -> TextChoiceWriter:
        return TextChoiceWriter(index, self._echoes[index] if self._echoes else "")


class TextChoiceWriter:
    def __init__(self, index: int, echo: str) -> None:
        self._index, self._echo = index, echo
        self._offset = len(echo)

    def whole(self, spoken: Sequence[Spoken], ended: Ended) -> TextChoice:
        text = self._echo + text_of(Said, [piece for part in spoken for piece in part.pieces])
        logprobs = [token for part in spoken for token in part.logprobs]
        return TextChoice(self._index, text, ended.reason, text_logprobs(logprobs, len(self._echo)))

    def opening(self) -> TextChoice | None:
        return TextChoice(self._index, self._echo) if self._echo else None

    def piece(self, spoken: Spoken) -> TextChoice:
        logprobs = text_logprobs(spoken.logprobs, self._offset)
        text = text_of(Said, spoken.pieces)
        self._offset += len(text)
        return TextChoice(self._index, text, logprobs=logprobs)

    def ending(self, ended: Ended) -> TextChoice:
        return TextChoice(self._index, "", ended.reason)
