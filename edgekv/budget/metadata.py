"""A model's GGUF metadata as numbers."""

from __future__ import annotations

from collections.abc import Mapping


class ModelKeys:
    """A model's metadata by the part of the key behind the architecture's name."""

    def __init__(self, metadata: Mapping[str, str]) -> None:
        self._metadata = metadata
        self.architecture = metadata.get("general.architecture", "")

    def numbers(self, key: str) -> list[int]:
        """A list's items, a single number as a list of one, [] for anything else."""
        text = self._metadata.get(f"{self.architecture}.{key}", "")
        words = text.strip("[]").replace("true", "1").replace("false", "0").split(",")
        stripped = [word.strip() for word in words]
        return [int(word) for word in stripped] if all(map(_is_number, stripped)) else []

    def number(self, key: str, default: int = 0) -> int:
        return next(iter(self.numbers(key)), default)

    def per_layer(self, key: str, il: int) -> int:
        """One number for all layers, or one for each."""
        listed = self.numbers(key)
        return listed[0] if len(listed) == 1 else at(listed, il)

    def kv_heads(self, il: int) -> int:
        key = "attention.head_count_kv"
        return self.per_layer(key if self.numbers(key) else "attention.head_count", il)

    def head_length(self, kind: str, *, is_windowed: bool) -> int:
        """Elements of one head's key or value."""
        length = self.number(f"attention.{kind}_length")
        if not length and (heads := self.per_layer("attention.head_count", 0)):
            length = self.number("embedding_length") // heads
        if is_windowed:
            return self.number(f"attention.{kind}_length_swa", length)
        return length


def at(items: list[int], index: int) -> int:
    """The item at `index`, 0 behind the end."""
    return items[index] if index < len(items) else 0


def _is_number(word: str) -> bool:
    return len(word) <= 12 and word.isascii() and word.isdigit()
