"""One file from a hub to this disk: resumed where it stopped, and named only once it is right.

                        ┌──────── the connection breaks: go on from there ◀┐
    NAME.<id>.part ─▶ hash what is there ─▶ GET bytes=there- ─▶ append and hash ─▶ right? ─▶ NAME

The partial file outlives the process. Its name carries the content it is part of, so bytes of
two versions never meet.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, TypeAlias

import httpx2

from edgekv.errors import HubError
from edgekv.models.disk import on_disk
from edgekv.models.hub_errors import raise_for_status

BLOCK_BYTES = 1 << 20
PART_SUFFIX = ".part"
_PARTIAL, _NOT_SATISFIABLE = 206, 416
_LATER = {408, 425, 429, 500, 502, 503, 504}
"""Statuses that another try may turn into an answer."""

Hear: TypeAlias = Callable[["Progress"], None]


@dataclass(frozen=True, slots=True)
class Progress:
    done_bytes: int
    total_bytes: int
    is_checking: bool = False
    """What is on disk already is read and hashed; nothing is transferred yet."""


@dataclass(frozen=True, slots=True)
class Source:
    """A file as its hub states it."""

    url: str
    num_bytes: int
    sha256: str | None

    def part_of(self, target: Path) -> Path:
        identity = (self.sha256 or f"{self.num_bytes}b")[:16]
        return target.with_name(f"{target.name}.{identity}{PART_SUFFIX}")


def file_sha256(path: Path, hear: Hear) -> str:
    """The hash of a whole file; `hear` follows the reading."""
    total, done, digest = path.stat().st_size, 0, hashlib.sha256()
    with path.open("rb") as file:
        for block in iter(lambda: file.read(BLOCK_BYTES), b""):
            digest.update(block)
            done += len(block)
            hear(Progress(done, total, is_checking=True))
    return digest.hexdigest()


class Interrupted(Exception):
    """The connection broke, and may work the next time. The message says how it broke."""


class Transfer:
    """A download under way: its partial file is open, and hashed as far as it goes."""

    def __init__(self, source: Source, part: BinaryIO, hear: Hear) -> None:
        self._source, self._part, self._hear = source, part, hear
        self._hash = hashlib.sha256()
        self.done_bytes = 0

    def read_what_is_there(self) -> None:
        for block in iter(lambda: self._part.read(BLOCK_BYTES), b""):
            self._hash.update(block)
            self.done_bytes += len(block)
            self._hear(Progress(self.done_bytes, self._source.num_bytes, is_checking=True))
        if self.done_bytes > self._source.num_bytes:
            self.start_over()

    def start_over(self) -> None:
        self._part.seek(0)
        self._part.truncate()
        self._hash = hashlib.sha256()
        self.done_bytes = 0

    def receive(self, client: httpx2.Client) -> None:
        """Append what is missing. Raises `Interrupted` when the connection breaks, `HubError`
        for another file than the one promised, and the HTTP error of a refusal.
        """
        headers = {"Accept-Encoding": "identity"}
        if self.done_bytes:
            headers["Range"] = f"bytes={self.done_bytes}-"
        try:
            with client.stream("GET", self._source.url, headers=headers) as response:
                self._check(response)
                for block in response.iter_raw():
                    self._append(block)
        except httpx2.TransportError as error:
            raise Interrupted(str(error) or type(error).__name__) from error
        if self.done_bytes < self._source.num_bytes:
            raise Interrupted("the connection ended early")

    def _check(self, response: httpx2.Response) -> None:
        """Make sure that the body is what comes next in the file."""
        if response.status_code in _LATER:
            raise Interrupted(f"HTTP {response.status_code}")
        if response.status_code == _NOT_SATISFIABLE and self.done_bytes:
            self.start_over()
            raise Interrupted("the hub has no such range")
        raise_for_status(response)
        if self.done_bytes and not self._continues(response):
            self.start_over()
        length = response.headers.get("Content-Length", "")
        missing = self._source.num_bytes - self.done_bytes
        if length.isdigit() and int(length) != missing:
            raise HubError(
                f"{response.url.host} sends {int(length):,} bytes where {missing:,} of the file "
                "are missing, so it is not that file; pull again later or from another mirror."
            )

    def _continues(self, response: httpx2.Response) -> bool:
        """Whether the body starts where the partial file ends. A server may ignore ranges."""
        place = response.headers.get("Content-Range", "")
        return response.status_code == _PARTIAL and place.startswith(f"bytes {self.done_bytes}-")

    def _append(self, block: bytes) -> None:
        if self.done_bytes + len(block) > self._source.num_bytes:
            raise HubError(
                f"More than the {self._source.num_bytes:,} bytes of the file arrived, so it is "
                "not that file; pull again later or from another mirror."
            )
        self._part.write(block)
        self._hash.update(block)
        self.done_bytes += len(block)
        self._hear(Progress(self.done_bytes, self._source.num_bytes))

    @property
    def is_right(self) -> bool:
        """Whether all of the file is here, and it is the one that the hub states."""
        is_whole = self.done_bytes == self._source.num_bytes
        return is_whole and self._source.sha256 in {None, self._hash.hexdigest()}


Waits: TypeAlias = Callable[[], Iterator[None]]
"""Waits before each further try; ends when there should be none."""


def download(client: httpx2.Client, source: Source, target: Path, hear: Hear, waits: Waits) -> None:
    """Make `target` the file at `source`, going on from its partial file.

    `waits` starts anew whenever a try brought something. Raises `HubError` where it cannot be
    done; the partial file stays, and so it does if `hear` raises.
    """
    part = source.part_of(target)
    with on_disk(target.parent):
        target.parent.mkdir(parents=True, exist_ok=True)
        with part.open("a+b", buffering=0) as file:
            file.seek(0)
            transfer = Transfer(source, file, hear)
            transfer.read_what_is_there()
            _receive_all(transfer, client, source, part, waits)
            os.fsync(file.fileno())
        if not transfer.is_right:
            part.unlink()
            raise HubError(
                f"{target.name} arrived damaged: its sha256 is not {source.sha256}; it was "
                "deleted, pull it again."
            )
        os.replace(part, target)


def _receive_all(
    transfer: Transfer, client: httpx2.Client, source: Source, part: Path, waits: Waits
) -> None:
    tries, most = waits(), transfer.done_bytes
    while transfer.done_bytes < source.num_bytes:
        try:
            transfer.receive(client)
        except Interrupted as interruption:
            if transfer.done_bytes > most:
                tries, most = waits(), transfer.done_bytes
            if next(tries, _NO_MORE) is _NO_MORE:
                raise HubError(_stopped(transfer, source, part, interruption)) from interruption


_NO_MORE = object()


def _stopped(transfer: Transfer, source: Source, part: Path, why: Interrupted) -> str:
    percent = round(100 * transfer.done_bytes / source.num_bytes)
    return (
        f"The download stopped at {percent} % ({transfer.done_bytes:,} of "
        f"{source.num_bytes:,} bytes: {why}); what came is in {part}, pull again to go on."
    )
