"""Texts that are too long, told before time and memory are spent on all of their tokens.

Between two steps nothing else happens: 16 MB of text would hold up every answer for half a minute,
and take ten times as much memory as they have.
"""

from __future__ import annotations

from collections.abc import Iterator

from edgekv.core.ports import Vocabulary
from edgekv.core.request import Segment, TextPrompt
from edgekv.errors import InvalidValue, PromptTooLong

USUAL_CHARACTERS = 8
"""A token of running text has no more of them, four in English; only long runs of spaces do."""
PIECE_CHARACTERS = 16_384
MOST_CHARACTERS = 524_288
"""Of a text whose tokens are asked for; half a second's work."""


def check_prompt(prompt: TextPrompt, limit: int, vocabulary: Vocabulary) -> None:
    """Raise `PromptTooLong` for a prompt with far more than `limit` tokens, of which it names
    about how many there are. One that passes may still have more than `limit`.
    """
    length = _length(prompt)
    if length <= max(PIECE_CHARACTERS, limit * USUAL_CHARACTERS):
        return
    num_tokens, num_read = 0, 0
    for piece in _pieces(prompt):
        num_tokens += len(vocabulary.tokenize(piece))
        num_read += sum(len(segment.text) for segment in piece)
        # Twice, because a border between pieces may make a few tokens out of one.
        if num_tokens > 2 * limit:
            raise PromptTooLong(num_tokens * length // num_read, limit, is_about=True)


def check_text(prompt: TextPrompt, limit: int) -> None:
    """Raise `InvalidValue` for a text whose tokens nobody can use at once. What fits into a
    conversation of `limit` tokens always passes.
    """
    length, most = _length(prompt), max(MOST_CHARACTERS, limit * USUAL_CHARACTERS)
    if length > most:
        raise InvalidValue(
            "content",
            f"The text has {length} characters and {most} may be turned into tokens at once; "
            "send it in parts.",
        )


def _length(prompt: TextPrompt) -> int:
    return sum(len(segment.text) for segment in prompt.segments)


def _pieces(prompt: TextPrompt) -> Iterator[list[Segment]]:
    """The prompt in order, about as many characters at a time."""
    piece: list[Segment] = []
    room = PIECE_CHARACTERS
    for segment in prompt.segments:
        for at in range(0, len(segment.text), PIECE_CHARACTERS):
            part = segment.text[at : at + PIECE_CHARACTERS]
            piece.append(Segment(part, segment.control))
            room -= len(part)
            if room <= 0:
                yield piece
                piece, room = [], PIECE_CHARACTERS
    if piece:
        yield piece
