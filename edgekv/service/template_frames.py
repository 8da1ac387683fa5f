"""The messages between a process and its template child: one `Call`, one `Reply`, in turns.

On the pipe a message is its length as in `core/frames.py`, then JSON: msgpack has no room
for the long numbers that arguments of a tool call may hold.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import msgspec

from edgekv.core.frames import LENGTH_BYTES

MEMORY_LIMIT_BYTES = 512 * 1024 * 1024
"""Of the child process."""


class Call(msgspec.Struct, frozen=True, tag=True):
    template: str
    variables: dict[str, Any]


class Rendered(msgspec.Struct, frozen=True, tag=True):
    text: str


class Mistake(msgspec.Struct, frozen=True, tag=True):
    """The template could not be compiled, or raised; `words` says why."""

    words: str


Reply: TypeAlias = Rendered | Mistake

decode_call: Callable[[bytes], Call] = msgspec.json.Decoder(Call).decode
decode_reply: Callable[[bytes], Reply] = msgspec.json.Decoder(Reply).decode


def frame(message: Call | Reply) -> bytes:
    body = msgspec.json.encode(message)
    return len(body).to_bytes(LENGTH_BYTES, "little") + body
