"""Walks a GGUF header that may still be elsewhere, reading as little of it as it must.

llama.cpp's own reader wants a file on this disk (`llama/gguf.py`). This one asks for bytes as it
goes, so a header can be read over the network, and a list of models shown without the library.
Every count in a header is checked against the size of the file before anything follows it: a
file of 24 bytes cannot make it read, or loop, for longer than 24 bytes allow.

Source of the layout: `docs/gguf.md` of ggml.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeAlias

from edgekv.errors import ModelError
from edgekv.models.tensor_types import Tensor

MAGIC = b"GGUF"
VERSIONS = (2, 3)
LONGEST_LISTED = 4096
"""Longer arrays are vocabularies; they are stepped over."""
_LONGEST_KEY = 65_535
_MOST_DIMENSIONS = 4
_BLOCK_BYTES = 65_536
ALIGNMENT = 32
"""Where tensors start, unless a file says otherwise, which none of the usual ones does."""
_VOCABULARY = "tokenizer.ggml.tokens"

Read: TypeAlias = Callable[[int, int], bytes]
"""`read(offset, length)`: the bytes of the file from there, fewer only at its end."""

_STRING, _ARRAY = 8, 9
_SCALARS = {
    0: "<B",
    1: "<b",
    2: "<H",
    3: "<h",
    4: "<I",
    5: "<i",
    6: "<f",
    7: "<?",
    10: "<Q",
    11: "<q",
    12: "<d",
}


@dataclass(frozen=True, slots=True)
class Walked:
    """What a header says, and how long it is."""

    metadata: dict[str, str]
    """Scalars and texts as they are, short arrays of numbers as "[a, b, …]"."""
    num_tensors: int
    num_bytes: int
    """The header's length, without the padding before the tensors' data."""
    num_vocab: int | None
    """Words of the vocabulary; None if there is none or the walk stopped before it."""
    tensor_bytes: int | None = None
    """All tensors as stored; None if a type is unknown or the walk stopped before them."""
    whole_bytes: int | None = None
    """What the whole file should have, where `tensor_bytes` is known."""
    tensors: tuple[Tensor, ...] = ()
    """All of them, where `tensor_bytes` is known."""


def walk(read: Read, file_bytes: int, *, whole: bool = True) -> Walked:
    """Read the header of a file of `file_bytes`. Raises `ModelError` saying what is wrong.

    Without `whole` it stops at the vocabulary, which comes behind what describes the model;
    `num_bytes` is then how far it came.
    """
    return _Walk(read, file_bytes).header(whole)


def walk_file(path: Path, *, whole: bool = True) -> Walked:
    """As `walk`, of a file on this disk. Raises `OSError` too."""
    with path.open("rb") as file:

        def read(offset: int, length: int) -> bytes:
            file.seek(offset)
            return file.read(length)

        return walk(read, path.stat().st_size, whole=whole)


class _Walk:
    """A position in the header. Everything read moves it."""

    def __init__(self, read: Read, file_bytes: int) -> None:
        self._read, self._file_bytes = read, file_bytes
        self._at = 0
        self._length = 0
        """Of the last list that was read."""
        self._num_vocab: int | None = None

    def header(self, whole: bool) -> Walked:
        magic = self._take(4)
        if magic != MAGIC:
            raise ModelError("it is not a GGUF model")
        version = self._number("<I")
        if version not in VERSIONS:
            # A version with its bytes turned round is a file for big-endian machines.
            turned = int.from_bytes(version.to_bytes(4, "big"), "little")
            kind = "big-endian" if turned in VERSIONS else f"of version {version}"
            raise ModelError(f"it is a GGUF file that is {kind}, which nobody here reads")
        num_tensors = self._count(1)
        metadata = self._metadata(self._count(1), whole)
        if not whole:
            return Walked(metadata, num_tensors, self._at, self._num_vocab)
        tensors = tuple(self._tensor() for _ in range(num_tensors))
        walked = Walked(metadata, num_tensors, self._at, self._num_vocab)
        sized = [(one.offset, size) for one in tensors if (size := one.num_bytes) is not None]
        if len(sized) < num_tensors:
            return walked
        end = max((offset + size for offset, size in sized), default=0)
        start = -(-self._at // ALIGNMENT) * ALIGNMENT if end else self._at
        all_bytes = sum(size for _, size in sized)
        return replace(walked, tensor_bytes=all_bytes, whole_bytes=start + end, tensors=tensors)

    def _metadata(self, num_keys: int, whole: bool) -> dict[str, str]:
        metadata: dict[str, str] = {}
        for _ in range(num_keys):
            key = self._text(_LONGEST_KEY)
            if not whole and key.startswith("tokenizer."):
                break
            value = self._value(self._number("<I"))
            if key in metadata:
                raise ModelError(f"its header says '{key}' twice")
            if value is not None:
                metadata[key] = value
            if key == _VOCABULARY:
                self._num_vocab = self._length
        return metadata

    def _value(self, kind: int) -> str | None:
        if kind == _STRING:
            return self._text(self._file_bytes)
        if kind == _ARRAY:
            return self._array(self._number("<I"))
        return _text_of(self._scalar(kind))

    def _array(self, kind: int) -> str | None:
        if kind == _STRING:
            self._length = self._count(8)
            self._skip_texts(self._length)
            return None
        if kind not in _SCALARS:
            raise ModelError(f"its header holds a list of kind {kind}, which GGUF has not")
        layout = _SCALARS[kind]
        size = struct.calcsize(layout)
        self._length = length = self._count(size)
        if length > LONGEST_LISTED:
            self._skip(length * size)
            return None
        numbers = struct.unpack(f"<{length}{layout[1]}", self._take(length * size))
        return "[" + ", ".join(map(_text_of, numbers)) + "]"

    def _skip_texts(self, count: int) -> None:
        """Step over a vocabulary: hundreds of thousands of texts, a block of bytes at a time."""
        block, start = b"", self._at
        for _ in range(count):
            offset = self._at - start
            if offset + 8 > len(block):
                block, start, offset = self._read(self._at, _BLOCK_BYTES), self._at, 0
                if len(block) < 8:
                    raise _cut(self._file_bytes)
            self._skip(8 + int.from_bytes(block[offset : offset + 8], "little"))

    def _tensor(self) -> Tensor:
        name = self._text(_LONGEST_KEY)
        num_dimensions = self._number("<I")
        if num_dimensions > _MOST_DIMENSIONS:
            raise ModelError(f"its header holds a tensor of {num_dimensions} dimensions")
        lengths = tuple(self._number("<Q") for _ in range(num_dimensions))
        return Tensor(name, self._number("<I"), lengths, self._number("<Q"))

    def _scalar(self, kind: int) -> int | float | bool:
        if kind not in _SCALARS:
            raise ModelError(f"its header holds a value of kind {kind}, which GGUF has not")
        return self._number(_SCALARS[kind])

    def _number(self, layout: str) -> int:
        number: int = struct.unpack(layout, self._take(struct.calcsize(layout)))[0]
        return number

    def _count(self, item_bytes: int) -> int:
        """How many items of at least `item_bytes` each follow."""
        count = self._number("<Q")
        if count * item_bytes > self._file_bytes - self._at:
            raise ModelError(
                f"its header promises {count:,} items, "
                f"more than its {self._file_bytes:,} bytes hold"
            )
        return count

    def _text(self, longest: int) -> str:
        length = self._count(1)
        if length > longest:
            raise ModelError(f"its header holds a name of {length:,} bytes")
        return self._take(length).decode("utf-8", "replace")

    def _skip(self, length: int) -> None:
        if self._at + length > self._file_bytes:
            raise _cut(self._file_bytes)
        self._at += length

    def _take(self, length: int) -> bytes:
        taken = self._read(self._at, length)
        if len(taken) < length:
            raise _cut(self._file_bytes)
        self._at += length
        return taken


def _cut(file_bytes: int) -> ModelError:
    return ModelError(f"it ends after {file_bytes:,} bytes, within its header")


def _text_of(number: int | float | bool) -> str:
    return str(number).lower() if isinstance(number, bool) else str(number)
