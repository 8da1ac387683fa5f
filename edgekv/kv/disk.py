"""Copies of cells in a folder that outlives the process: all the engine's file I/O.

    <folder>/<key>/<random>.cells     MAGIC, length and checksum of the header, header, cells

`key` names everything but the tokens that the cells depend on, so the files of another model or
library version are never looked at; they only count towards the limit, and go first. A file is
written under another name and renamed, so a whole name is a whole file; a torn or altered one is
noticed by its checksums and removed. A file that cannot be written or read is a lost copy, not an
error: the tokens can always be computed again.
"""

from __future__ import annotations

import logging
import os
import secrets
import struct
from array import array
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from zlib import crc32

import msgspec

from edgekv.core.request import Token

MAGIC = b"EDGEKV\x00\x01"
"""The last byte is the version of the format."""
SUFFIX = ".cells"
_PREFIX = struct.Struct("<8sII")
"""Magic, bytes of the header, checksum of the header."""
_MOST_HEADER_BYTES = 128
"""What the header takes beside its tokens, at most."""
_NO_HEADER = "The header is not one of ours."

logger = logging.getLogger(__name__)


class _Header(msgspec.Struct, frozen=True):
    start: int
    tokens: bytes
    """All tokens up to the end of the cells, as this machine's 32-bit numbers."""
    num_bytes: int
    checksum: int
    """Both of the cells, which follow the header."""


@dataclass(frozen=True, slots=True)
class DiskCopy:
    """The cells at positions [start, len(tokens)) of a sequence that spells `tokens`."""

    path: Path
    start: int
    tokens: tuple[Token, ...]
    num_bytes: int
    """Of the cells alone."""
    file_bytes: int


class Disk:
    """The files of one key, and the limit for all keys together.

    Another process may use the folder too; each keeps to the limit by what it knows.
    """

    def __init__(self, folder: Path, key: str, *, limit_bytes: int) -> None:
        """Raises `OSError` if the folder cannot be made or read."""
        self._folder, self.limit_bytes = folder / key, limit_bytes
        # Conversations can be read from the tokens, so nobody else may look.
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._foreign = _files_by_age(p for p in folder.glob("*/*") if p.parent != self._folder)
        self.copies = self._known_copies()
        """What an earlier process left, the least recently used first."""
        self.used_bytes = sum(self._foreign.values()) + sum(c.file_bytes for c in self.copies)
        self._free_foreign(0)

    @staticmethod
    def file_bytes(num_tokens: int, num_bytes: int) -> int:
        """What a copy of so many bytes takes at most."""
        return _PREFIX.size + _MOST_HEADER_BYTES + 4 * num_tokens + num_bytes

    def fits(self, num_bytes: int) -> bool:
        """Whether so much more may be written, with what other models left given up."""
        return self.used_bytes - sum(self._foreign.values()) + num_bytes <= self.limit_bytes

    def write(self, start: int, tokens: Sequence[Token], blob: bytes) -> DiskCopy | None:
        """Write one copy; None if it does not fit, here or on the disk."""
        packed = array("i", tokens).tobytes()
        header = msgspec.msgpack.encode(_Header(start, packed, len(blob), crc32(blob)))
        file_bytes = _PREFIX.size + len(header) + len(blob)
        if not self.fits(file_bytes):
            return None
        self._free_foreign(file_bytes)
        path = self._folder / (secrets.token_hex(8) + SUFFIX)
        unfinished = path.with_suffix(".part")
        try:
            with unfinished.open("wb") as file:
                file.write(_PREFIX.pack(MAGIC, len(header), crc32(header)) + header)
                file.write(blob)
            unfinished.replace(path)
        except OSError as error:
            logger.warning("cells cannot be written to %s: %s", self._folder, error.strerror)
            _unlink(unfinished)
            return None
        self.used_bytes += file_bytes
        return DiskCopy(path, start, tuple(tokens), len(blob), file_bytes)

    def read(self, copy: DiskCopy) -> bytes | None:
        """The cells of a copy, or None if the file is not what was written."""
        try:
            with copy.path.open("rb") as file:
                header = _read_header(file.read(_PREFIX.size), file.read)
                blob = file.read()
        except (OSError, ValueError):
            return None
        return blob if (len(blob), crc32(blob)) == (header.num_bytes, header.checksum) else None

    def touch(self, copy: DiskCopy) -> None:
        """Remember, for the next process too, that a copy was used just now."""
        try:
            os.utime(copy.path)
        except OSError:
            logger.info("%s is gone", copy.path)

    def remove(self, copy: DiskCopy) -> None:
        _unlink(copy.path)
        self.used_bytes -= copy.file_bytes

    def _known_copies(self) -> list[DiskCopy]:
        """The whole files of this key; everything else in its folder is removed."""
        copies: list[DiskCopy] = []
        for path, file_bytes in _files_by_age(self._folder.iterdir()).items():
            try:
                copies.append(_copy(path, file_bytes))
            except (OSError, ValueError):
                logger.warning("%s is torn or not ours, and is removed", path)
                _unlink(path)
        return copies

    def _free_foreign(self, num_bytes: int) -> None:
        """Give up files of other keys, oldest first, until so much more fits."""
        while self._foreign and self.used_bytes + num_bytes > self.limit_bytes:
            path = next(iter(self._foreign))
            self.used_bytes -= self._foreign.pop(path)
            _unlink(path)


def _copy(path: Path, file_bytes: int) -> DiskCopy:
    """What a file says it holds. Raises `ValueError` if that cannot be."""
    if not path.is_file():  # a pipe would be waited for
        raise ValueError(_NO_HEADER)
    with path.open("rb") as file:
        header = _read_header(file.read(_PREFIX.size), file.read)
        if file_bytes != file.tell() + header.num_bytes:
            raise ValueError("The file is cut short or too long.")
    numbers = array("i", header.tokens)
    if not 0 <= header.start < len(numbers):
        raise ValueError(_NO_HEADER)
    tokens = tuple(map(Token, numbers))
    return DiskCopy(path, header.start, tokens, header.num_bytes, file_bytes)


def _read_header(prefix: bytes, read: Callable[[int], bytes]) -> _Header:
    """Raises `ValueError` if it is not whole and ours."""
    if len(prefix) < _PREFIX.size:
        raise ValueError(_NO_HEADER)
    magic, length, checksum = _PREFIX.unpack(prefix)
    if magic != MAGIC:
        raise ValueError(_NO_HEADER)
    header = read(length)
    if crc32(header) != checksum:
        raise ValueError(_NO_HEADER)
    return msgspec.msgpack.decode(header, type=_Header)  # its errors are ValueErrors


def _files_by_age(paths: Iterable[Path]) -> dict[Path, int]:
    """Bytes of every file, the one that was not touched for longest first."""
    found: list[tuple[int, Path, int]] = []
    for path in paths:
        try:
            status = path.stat()
        except OSError:  # another process has just removed it
            continue
        found.append((status.st_mtime_ns, path, status.st_size))
    return {path: size for _, path, size in sorted(found)}


def _unlink(path: Path) -> None:
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        logger.warning("%s cannot be removed: %s", path, error.strerror)
