"""A model from a hub to the models folder: chosen, checked, transferred, verified.

Pulls of one file take turns, whichever process they are in: the system gives a lock back when
its process ends, so a killed pull leaves nothing locked.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

import httpx2
from filelock import FileLock, Timeout

from edgekv.models.disk import check_free_space, on_disk
from edgekv.models.hub import Hub, HubFile, Listing
from edgekv.models.quantisations import Quantisation
from edgekv.models.transfer import Hear, Progress, Source, Waits, download, file_sha256

LOCKS = ".locks"
_SECONDS_BETWEEN_TRIES = (1.0, 2.0, 4.0, 8.0)
_CONNECT_SECONDS, _SILENT_SECONDS = 10.0, 30.0


@dataclass(frozen=True, slots=True)
class Wanted:
    """What is to be pulled, and where it will be."""

    listing: Listing
    quantisation: Quantisation
    folder: Path
    """The models folder; a repository's files go to `folder/owner/name`."""

    def target(self, file: HubFile) -> Path:
        return self.folder.joinpath(self.listing.repository, PurePosixPath(file.name))

    @property
    def path(self) -> Path:
        """What to open when everything is here."""
        return self.target(self.quantisation.files[0])


def patient_waits() -> Iterator[None]:
    """Waits longer each time, some times."""
    for seconds in _SECONDS_BETWEEN_TRIES:
        time.sleep(seconds)
        yield


def missing_bytes(hub: Hub, wanted: Wanted) -> int:
    """What is still to be transferred, going by the sizes of what is on disk."""
    return sum(
        file.num_bytes - _bytes_there(_source(hub, wanted, file), wanted.target(file))
        for file in wanted.quantisation.files
    )


def check_space(hub: Hub, wanted: Wanted) -> None:
    """Raises `Unavailable` with both numbers if the disk lacks the space for what is missing."""
    check_free_space(wanted.folder, missing_bytes(hub, wanted))


def pull(
    hub: Hub,
    wanted: Wanted,
    hear: Hear,
    hear_waiting: Callable[[], None] = lambda: None,
    waits: Waits = patient_waits,
) -> Path:
    """Get every file of `wanted`; returns the one to open. What is here and right stays as it is.

    `hear` may raise to stop the pull; a later one goes on from there. `hear_waiting` is told
    once if another pull of the same file goes first. Raises `HubError` and `Unavailable`.
    """
    check_space(hub, wanted)
    total, before = wanted.quantisation.num_bytes, 0
    timeout = httpx2.Timeout(_CONNECT_SECONDS, read=_SILENT_SECONDS)
    with httpx2.Client(follow_redirects=True, timeout=timeout, headers=hub.headers) as client:
        for file in wanted.quantisation.files:

            def hear_file(progress: Progress, before: int = before) -> None:
                hear(Progress(before + progress.done_bytes, total, progress.is_checking))

            target, source = wanted.target(file), _source(hub, wanted, file)
            with _turn(wanted.folder, target, hear_waiting):
                if not _is_here(source, target, hear_file):
                    try:
                        download(client, source, target, hear_file, waits)
                    except httpx2.HTTPError as error:
                        raise hub.refusal(wanted.listing.repository, error) from error
            before += file.num_bytes
    return wanted.path


def _source(hub: Hub, wanted: Wanted, file: HubFile) -> Source:
    return Source(hub.url(wanted.listing, file), file.num_bytes, file.sha256)


def _bytes_there(source: Source, target: Path) -> int:
    for path in (target, source.part_of(target)):
        if path.is_file() and path.stat().st_size <= source.num_bytes:
            return path.stat().st_size
    return 0


def _is_here(source: Source, target: Path, hear: Hear) -> bool:
    """Whether the file under its own name is already the one that the hub states."""
    if not target.is_file() or target.stat().st_size != source.num_bytes:
        return False
    return source.sha256 in {None, file_sha256(target, hear)}


@contextmanager
def _turn(folder: Path, target: Path, hear_waiting: Callable[[], None]) -> Iterator[None]:
    """Holds everybody else's pull of `target` off, in this process and in others."""
    locks = folder / LOCKS
    with on_disk(folder):
        locks.mkdir(parents=True, exist_ok=True)
    name = "--".join(target.relative_to(folder).parts)
    # A lock that is only a file would outlive a killed process, so none is better than that.
    lock = FileLock(locks / f"{name}.lock", fallback_to_soft=False)
    with on_disk(folder):
        try:
            lock.acquire(timeout=0)
        except Timeout:
            hear_waiting()
            lock.acquire()
        except NotImplementedError:
            # This file system knows no locks. Two pulls then do the work twice and harm nothing:
            # no file gets its name before its hash is right.
            pass
    try:
        yield
    finally:
        lock.release()
