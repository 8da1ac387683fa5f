"""Which servers of this user run on this machine: a small file for each, gone when it ends.

A file that a killed server left behind is known by its process, and removed by whoever looks.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import msgspec
import psutil

from edgekv.config.places import made, runtime_folder
from edgekv.errors import Unavailable

_log = logging.getLogger(__name__)


class Notice(msgspec.Struct, frozen=True):
    """One server that answers, or will once its model is loaded."""

    pid: int
    started: float
    """When the process began, as the system counts; another process may get the same `pid`."""
    url: str
    model: str
    """The model file, with no links on the way."""
    key_file: str | None = None
    """Where its key can be read, if it has one that came from a file."""
    has_key: bool = False


@contextmanager
def announced(url: str, model: str, key_file: Path | None, *, has_key: bool) -> Iterator[None]:
    """Tell this user's other programs of a server of this process, as long as the block runs.

    Where there is no folder for it nobody is told, and the server serves all the same.
    """
    notice = Notice(
        pid=os.getpid(),
        started=psutil.Process().create_time(),
        url=url,
        model=os.path.realpath(model),
        key_file=None if key_file is None else str(key_file.resolve()),
        has_key=has_key,
    )
    try:
        path = made(runtime_folder(), "the addresses of servers") / f"serve-{notice.pid}.json"
        _write(path, notice)
    except (Unavailable, OSError) as error:
        _log.warning("other programs are not told of this server: %s", error)
        yield
        return
    try:
        yield
    finally:
        with suppress(OSError):
            path.unlink()


def servers_of(model: str) -> list[Notice]:
    """Servers that hold a model file. Files of processes that are gone are removed."""
    folder = runtime_folder()
    wanted = os.path.realpath(model)
    paths = sorted(folder.glob("serve-*.json")) if folder is not None else []
    notices = [notice for path in paths if (notice := _read(path)) is not None]
    return [notice for notice in notices if notice.model == wanted]


def _write(path: Path, notice: Notice) -> None:
    """For this user's eyes only, and whole from the first moment on."""
    draft = path.with_suffix(".part")
    with suppress(FileNotFoundError):
        draft.unlink()
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(msgspec.json.encode(notice))
    draft.replace(path)


def _read(path: Path) -> Notice | None:
    try:
        notice = msgspec.json.decode(path.read_bytes(), type=Notice)
    except (OSError, msgspec.DecodeError):
        return None
    if _is_alive(notice):
        return notice
    with suppress(OSError):
        path.unlink()
    return None


def _is_alive(notice: Notice) -> bool:
    try:
        return psutil.Process(notice.pid).create_time() == notice.started
    except psutil.Error:
        return False
