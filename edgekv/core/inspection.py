"""Who holds which cells, what is stored, and why prompts were computed: what `GET /kv` shows."""

from __future__ import annotations

import msgspec

from edgekv.core.request import RequestId, SeqId, Token


class HeldRun(msgspec.Struct, frozen=True):
    """Cells with the same holders, one behind the other in their sequences."""

    start: int
    """The position of the first in each of them."""
    num_cells: int
    running: tuple[SeqId, ...]
    kept: tuple[SeqId, ...]


class StoredRun(msgspec.Struct, frozen=True):
    """A copy of the cells at positions [start, end) of a sequence."""

    start: int
    end: int
    num_bytes: int
    in_host_memory: bool
    on_disk: bool


class PinnedRun(msgspec.Struct, frozen=True):
    """A prompt that the user wants kept."""

    name: str
    num_tokens: int
    num_held: int
    """How many of them, from the first, have cells now."""


class Difference(msgspec.Struct, frozen=True):
    """Where a prompt parts from the most similar tokens that there were cells for."""

    position: int
    """Of the first token that differs."""
    wanted: tuple[Token, ...]
    """The prompt's tokens from shortly before that position to shortly after it."""
    found: tuple[Token, ...]
    wanted_text: str = ""
    found_text: str = ""


class Lost(msgspec.Struct, frozen=True):
    """So many of a prompt's tokens once had cells."""

    num_tokens: int
    how: str
    """A sentence that says what took them."""


class Miss(msgspec.Struct, frozen=True):
    """Why a prompt, or its rest, had to be computed. Neither reason: nothing similar was there."""

    difference: Difference | None = None
    lost: Lost | None = None


class PromptStart(msgspec.Struct, frozen=True):
    """What a request found when it started."""

    request_id: RequestId
    num_prompt: int
    num_reused: int
    num_restored: int
    miss: Miss | None
    """None where all but the last token was there."""


class CacheView(msgspec.Struct, frozen=True):
    runs: tuple[HeldRun, ...]
    stored: tuple[StoredRun, ...]
    """The least recently used first."""
    note: str
    """What of a conversation can be used again on this model."""
    pinned: tuple[PinnedRun, ...] = ()
