"""A SQLite file that several programs may use at once, or one in memory where there is no file."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from edgekv.errors import NotSaved
from edgekv.history.schema import prepare

SECONDS_TO_WAIT = 2.0
"""For another program's write, which takes milliseconds."""
IN_MEMORY = ":memory:"


class Database:
    """One connection, used from one thread."""

    def __init__(self, path: Path | None) -> None:
        """Opens the file, which is made if need be; None opens an empty one in memory.

        Raises `NotSaved` where there can be no such file, `Unavailable` as `prepare` does.
        """
        self.path = path
        with self._failing_as_not_saved():
            if path is not None:
                _make_private(path)
            self._connection = sqlite3.connect(
                path or IN_MEMORY, timeout=SECONDS_TO_WAIT, isolation_level=None
            )
            try:
                self._set_up()
            except BaseException:
                self._connection.close()
                raise

    def _set_up(self) -> None:
        # WAL: readers and a writer do not wait for each other, and a killed program loses nothing
        # that was committed. NORMAL: a power cut may lose the last seconds, never the file.
        for pragma in ("journal_mode = WAL", "synchronous = NORMAL", "foreign_keys = ON"):
            self._connection.execute(f"PRAGMA {pragma}").fetchall()
        # What was deleted is not there any more, not even as bytes of the file.
        self._connection.execute("PRAGMA secure_delete = ON").fetchall()
        self._connection.create_function("contains", 2, _contains, deterministic=True)
        prepare(self._connection)

    @contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """All of it is written, or with an error none. Raises `NotSaved`."""
        with self._failing_as_not_saved():
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield self._connection
            except BaseException:
                self._connection.rollback()
                raise
            self._connection.commit()

    def rows(self, query: str, *values: object) -> list[tuple[Any, ...]]:
        """Raises `NotSaved` if the file cannot be read any more."""
        with self._failing_as_not_saved():
            return self._connection.execute(query, values).fetchall()

    def close(self) -> None:
        """Safe to call twice."""
        self._connection.close()

    @contextmanager
    def _failing_as_not_saved(self) -> Iterator[None]:
        try:
            yield
        except (sqlite3.Error, OSError) as error:
            reason = error.strerror if isinstance(error, OSError) else str(error)
            if type(error) is sqlite3.DatabaseError:  # not a kind of it: the file is damaged
                reason = f"{reason}; move that file away to begin a new one"
            raise NotSaved(f"Conversations cannot be saved in {self.path}: {reason}.") from error


def blob(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def text(value: object) -> str:
    assert isinstance(value, bytes)
    return value.decode("utf-8", "surrogatepass")


def _contains(value: bytes, wanted: str) -> bool:
    """Whether a text has the words in it, upper and lower case alike; `wanted` is folded."""
    return wanted in text(value).casefold()


def _make_private(path: Path) -> None:
    """What people write to a model is for nobody else on this machine."""
    if not path.is_absolute():
        raise NotADirectoryError(20, "there is no home folder; set XDG_DATA_HOME")
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
