"""The disk that models are on: what is free there, and what its errors mean for people."""

from __future__ import annotations

import errno
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from edgekv.budget.sizes import format_size
from edgekv.errors import Unavailable

_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}


def check_free_space(folder: Path, needed_bytes: int) -> None:
    """Raises `Unavailable` with both numbers if `folder`'s disk has less than is needed."""
    place = next(path for path in (folder, *folder.parents) if path.exists())
    with on_disk(folder):
        free = shutil.disk_usage(place).free
    if free < needed_bytes:
        raise Unavailable(
            f"There is no space for it in {folder}: {format_size(needed_bytes)} are needed and "
            f"{format_size(free)} are free; make room, or name another folder in EDGEKV_MODELS."
        )


@contextmanager
def on_disk(folder: Path) -> Iterator[None]:
    """Turns the system's refusal to write below `folder` into a sentence. What is there stays."""
    try:
        yield
    except OSError as error:
        if error.errno is None:  # not from the disk
            raise
        if error.errno in _FULL:
            raise Unavailable(
                f"No space left in {folder}; make room and pull again, it goes on where it stopped."
            ) from error
        raise Unavailable(
            f"{folder} cannot be written ({error.strerror}); name another folder in EDGEKV_MODELS."
        ) from error
