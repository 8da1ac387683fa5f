"""Bytes of tokens → text for the caller: whole characters, and nothing from a stop string on."""

from __future__ import annotations

from codecs import getincrementaldecoder
from collections.abc import Sequence

_Utf8Decoder = getincrementaldecoder("utf-8")


class TextStream:
    """The text of one answer. How the bytes are divided into pieces makes no difference to it.

    What could be the start of a stop string is held until it is certain. Of several stop strings
    the one that is complete first counts, and of those complete at once the longest.

        stop "User:"    push "Hello.Us"   gives "Hello."
                        push "ain"        gives "Usain"
                        push "User: no"   gives "", and stopped
    """

    def __init__(self, stop: Sequence[str] = ()) -> None:
        """Raises `ValueError` for an empty stop string."""
        if "" in stop:
            raise ValueError("a stop string needs at least one character")
        # Bytes that can never be UTF-8 become U+FFFD; those that may become a character wait.
        self._decoder = _Utf8Decoder(errors="replace")
        self._stop = tuple(stop)
        self._held = ""
        """What could be the start of a stop string."""
        self.stopped_by: str | None = None
        """The stop string that was met."""

    @property
    def stopped(self) -> bool:
        """A stop string was met: whatever comes is dropped."""
        return self.stopped_by is not None

    def push(self, piece: bytes) -> str:
        """The text that is certain now."""
        if self.stopped:
            return ""
        text = self._held + self._decoder.decode(piece)
        matches = [(at + len(s), at) for s in self._stop if (at := text.find(s)) >= 0]
        if matches:
            end, start = min(matches)
            self.stopped_by, self._held = text[start:end], ""
            return text[:start]
        certain = len(text) - max((_held_length(text, s) for s in self._stop), default=0)
        self._held = text[certain:]
        return text[:certain]

    def finish(self) -> str:
        """The text that was held back. Bytes of an unfinished character are dropped."""
        text, self._held = self._held, ""
        return text


def _held_length(text: str, stop: str) -> int:
    """How much of the end of `text` may go on to be `stop`.

    Tried length by length: a table of all beginnings of `stop` would grow with its square.
    """
    longest = min(len(text), len(stop) - 1)
    return next((n for n in range(longest, 0, -1) if stop.startswith(text[-n:])), 0)
