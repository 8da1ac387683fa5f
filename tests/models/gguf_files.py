"""Small changes to real GGUF files: one of them in several, and headers that say something else."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

_ALIGNMENT = 32
_UINT16, _INT32, _STRING, _ARRAY = 2, 5, 8, 9
_SIZES = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}


@dataclass(frozen=True, slots=True)
class Tensor:
    name: bytes
    shape_and_type: bytes
    content: bytes


@dataclass(frozen=True, slots=True)
class GGUF:
    num_keys: int
    keys: bytes
    """Every key with its value, as the file has them."""
    tensors: tuple[Tensor, ...]


def read_gguf(path: Path) -> GGUF:
    content = path.read_bytes()
    num_tensors, num_keys = struct.unpack_from("<QQ", content, 8)
    at = start = 24
    for _ in range(num_keys):
        at = _behind_text(content, at)
        (kind,) = struct.unpack_from("<I", content, at)
        at = _behind_value(content, at + 4, kind)
    keys, infos = content[start:at], []
    for _ in range(num_tensors):
        name_end = _behind_text(content, at)
        (num_dimensions,) = struct.unpack_from("<I", content, name_end)
        shape_end = name_end + 4 + 8 * num_dimensions + 4
        (offset,) = struct.unpack_from("<Q", content, shape_end)
        infos.append((content[at:name_end], content[name_end:shape_end], offset))
        at = shape_end + 8
    data = content[_aligned(at) :]
    ends = [*sorted(offset for _, _, offset in infos)[1:], len(data)]
    tensors = (
        Tensor(name, shape, data[offset:end])
        for (name, shape, offset), end in zip(infos, ends, strict=True)
    )
    return GGUF(num_keys, keys, tuple(tensors))


def write_gguf(path: Path, model: GGUF) -> Path:
    infos, offset, data = b"", 0, []
    for tensor in model.tensors:
        infos += tensor.name + tensor.shape_and_type + struct.pack("<Q", offset)
        padded = tensor.content.ljust(_aligned(len(tensor.content)), b"\0")
        data.append(padded)
        offset += len(padded)
    header = b"GGUF" + struct.pack("<IQQ", 3, len(model.tensors), model.num_keys)
    header += model.keys + infos
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(header.ljust(_aligned(len(header)), b"\0") + b"".join(data))
    return path


def split_gguf(path: Path, folder: Path, base: str, count: int) -> list[Path]:
    """The model at `path` in `count` files, as llama-gguf-split writes them."""
    model = read_gguf(path)
    each = -(-len(model.tensors) // count)
    files = []
    for number in range(count):
        split_keys = (
            key("split.no", _UINT16, struct.pack("<H", number))
            + key("split.count", _UINT16, struct.pack("<H", count))
            + key("split.tensors.count", _INT32, struct.pack("<i", len(model.tensors)))
        )
        keys = model.keys + split_keys if number == 0 else split_keys
        num_keys = 3 + (model.num_keys if number == 0 else 0)
        tensors = model.tensors[number * each : (number + 1) * each]
        name = f"{base}-{number + 1:05d}-of-{count:05d}.gguf"
        files.append(write_gguf(folder / name, GGUF(num_keys, keys, tensors)))
    return files


def header(keys: Sequence[bytes]) -> bytes:
    """A whole file that holds nothing but keys."""
    return b"GGUF" + struct.pack("<IQQ", 3, 0, len(keys)) + b"".join(keys)


def key(name: str, kind: int, value: bytes) -> bytes:
    return text(name) + struct.pack("<I", kind) + value


def text(words: str) -> bytes:
    return struct.pack("<Q", len(words.encode())) + words.encode()


def _behind_text(content: bytes, at: int) -> int:
    (length,) = struct.unpack_from("<Q", content, at)
    end: int = at + 8 + length
    return end


def _behind_value(content: bytes, at: int, kind: int) -> int:
    if kind == _STRING:
        return _behind_text(content, at)
    if kind != _ARRAY:
        return at + _SIZES[kind]
    item, count = struct.unpack_from("<IQ", content, at)
    at += 12
    if item != _STRING:
        end: int = at + _SIZES[item] * count
        return end
    for _ in range(count):
        at = _behind_text(content, at)
    return at


def _aligned(length: int) -> int:
    return -(-length // _ALIGNMENT) * _ALIGNMENT
