"""What the store finds, what it drops, and what it says of files that are not as they were."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from edgekv.core.request import Token
from edgekv.kv.disk import SUFFIX, Disk
from edgekv.kv.store import Store


def tokens(text: str) -> list[Token]:
    return [Token(ord(letter)) for letter in text]


def cells(text: str, start: int = 0) -> bytes:
    """What stands for the cells of `text[start:]`: a hundred bytes each."""
    return b"".join(letter.encode() * 100 for letter in text[start:])


class Shelf:
    """A store spoken to in letters."""

    def __init__(self, host: int = 10_000, folder: Path | None = None, disk: int = 10_000) -> None:
        self.disk = Disk(folder, "model", limit_bytes=disk) if folder else None
        self.store = Store(host_limit_bytes=host, disk=self.disk)

    def put(self, text: str, start: int = 0) -> bool:
        done = self.store.put(tokens(text), start, cells(text, start))
        self.store.check_integrity()
        return done

    def get(self, text: str, known: int = 0) -> tuple[bytes, int] | None:
        """The cells of the entry that helps, and how far it does."""
        stored = self.store.find(tokens(text), known)
        if stored is None:
            return None
        blob = self.store.get(stored.entry)
        self.store.check_integrity()
        return None if blob is None else (blob, stored.end)

    def reach(self, text: str, known: int = 0) -> int:
        return self.store.reach(tokens(text), known)

    def rest(self) -> None:
        while self.store.rest():
            self.store.check_integrity()

    def files(self) -> list[Path]:
        assert self.disk is not None
        return sorted(self.disk._folder.iterdir())


def test_an_entry_is_found_by_its_tokens_and_helps_as_far_as_they_agree() -> None:
    shelf = Shelf()
    shelf.put("abcdef")
    assert shelf.get("abcxyz") == (cells("abcdef"), 3)
    assert shelf.get("xyz") is None


def test_an_entry_without_its_beginning_helps_only_those_who_have_it() -> None:
    shelf = Shelf()
    shelf.put("abcdef", start=3)
    assert shelf.get("abcdef", known=2) is None
    assert shelf.get("abcdef", known=3) == (cells("def"), 6)
    assert shelf.get("abcdef", known=5) == (cells("def"), 6)
    assert shelf.get("abcdef", known=6) is None


def test_entries_chain_over_others_that_do_not_fit() -> None:
    shelf = Shelf()
    shelf.put("abc")
    shelf.put("abcdef", start=3)
    shelf.put("abcdefghi", start=8)
    assert shelf.reach("abcdefghi") == 6
    assert shelf.reach("abcdefghi", known=8) == 9


def test_a_whole_state_is_found_only_where_all_its_tokens_come_first() -> None:
    shelf = Shelf()
    shelf.put("abc")
    shelf.put("abcdef")
    for text, end in (("abcdefg", 6), ("abcdex", 3), ("abx", None)):
        stored = shelf.store.find_whole(tokens(text))
        assert (stored.end if stored else None) == end


def test_the_least_recently_used_is_dropped_first() -> None:
    shelf = Shelf(host=600)
    for text in ("ab", "cd", "ef"):
        shelf.put(text)
    shelf.get("ab")
    shelf.put("gh")
    assert [shelf.reach(text) for text in ("ab", "cd", "ef", "gh")] == [2, 0, 2, 2]


def test_what_was_used_often_outlives_what_was_used_once() -> None:
    shelf = Shelf(host=600)
    for text in ("ab", "cd", "ef"):
        shelf.put(text)
    for _ in range(5):
        shelf.get("ab")
    shelf.get("cd")
    shelf.put("gh")
    shelf.put("ij")
    assert [shelf.reach(text) for text in ("ab", "cd", "ef", "gh", "ij")] == [2, 2, 0, 0, 2]


def test_what_was_used_often_long_ago_goes_at_last() -> None:
    shelf = Shelf(host=600)
    shelf.put("ab")
    for _ in range(5):
        shelf.get("ab")
    for number in range(100):
        shelf.put(f"{number:02}")
    assert shelf.reach("ab") == 0


def test_the_beginning_of_a_conversation_is_not_dropped_before_its_end() -> None:
    shelf = Shelf(host=600)
    shelf.put("ab")
    shelf.put("abcd", start=2)
    shelf.put("abcdef", start=4)
    shelf.put("xy")
    assert shelf.reach("abcdef") == 4
    shelf.put("12")
    assert shelf.reach("abcdef") == 2


def test_what_is_too_large_is_refused_and_drops_nothing() -> None:
    shelf = Shelf(host=600)
    shelf.put("ab")
    assert not shelf.put("1234567")
    assert shelf.reach("ab") == 2


def test_without_room_anywhere_nothing_is_stored() -> None:
    store = Store()
    assert not store.is_on
    assert not store.put(tokens("ab"), 0, cells("ab"))


def test_what_host_memory_has_no_room_for_goes_to_disk_and_comes_back(tmp_path: Path) -> None:
    shelf = Shelf(host=300, folder=tmp_path)
    shelf.put("abc")
    shelf.put("xyz")
    assert shelf.store.host_bytes == 300
    assert shelf.get("abc") == (cells("abc"), 3)
    assert shelf.get("xyz") == (cells("xyz"), 3)


def test_a_disk_alone_is_enough(tmp_path: Path) -> None:
    shelf = Shelf(host=0, folder=tmp_path)
    shelf.put("abc")
    assert shelf.get("abc") == (cells("abc"), 3)


def test_what_was_written_is_there_after_a_restart(tmp_path: Path) -> None:
    shelf = Shelf(folder=tmp_path)
    shelf.put("abc")
    shelf.put("abcdef", start=3)
    assert shelf.files() == []
    shelf.rest()
    again = Shelf(folder=tmp_path)
    assert again.reach("abcdef") == 6
    assert again.get("abcdef", known=3) == (cells("def"), 6)


def test_the_order_of_use_survives_a_restart(tmp_path: Path) -> None:
    shelf = Shelf(host=0, folder=tmp_path)
    for age, text in enumerate(("ab", "cd", "ef")):
        shelf.put(text)
        [path] = [p for p in shelf.files() if p.stat().st_mtime > 1000]
        os.utime(path, (age, age))
    shelf.get("ab")
    again = Shelf(host=0, folder=tmp_path, disk=2 * Disk.file_bytes(2, 200))
    assert [again.reach(text) for text in ("ab", "cd", "ef")] == [2, 0, 2]


def test_the_disk_is_bounded_and_loses_the_least_recently_used(tmp_path: Path) -> None:
    shelf = Shelf(host=0, folder=tmp_path, disk=2 * Disk.file_bytes(2, 200))
    for text in ("ab", "cd", "ef"):
        shelf.put(text)
    assert [shelf.reach(text) for text in ("ab", "cd", "ef")] == [0, 2, 2]
    assert sum(p.stat().st_size for p in shelf.files()) == shelf.store.disk_bytes


def test_a_disk_too_small_for_all_comes_to_rest(tmp_path: Path) -> None:
    shelf = Shelf(folder=tmp_path, disk=Disk.file_bytes(2, 200))
    for text in ("ab", "cd", "ef"):
        shelf.put(text)
    shelf.rest()
    assert len(shelf.files()) == 1
    assert [shelf.reach(text) for text in ("ab", "cd", "ef")] == [2, 2, 2]


@pytest.mark.parametrize("position", [0, 9, 13, 40, -1])
def test_a_file_altered_in_any_place_is_never_loaded(tmp_path: Path, position: int) -> None:
    shelf = Shelf(host=0, folder=tmp_path)
    shelf.put("abcdef")
    [path] = shelf.files()
    content = bytearray(path.read_bytes())
    content[position] ^= 1
    path.write_bytes(content)
    assert Shelf(host=0, folder=tmp_path).get("abcdef") is None
    assert shelf.get("abcdef") is None
    assert shelf.reach("abcdef") == 0
    assert not path.exists()


@pytest.mark.parametrize("length", [0, 5, 16, 40, -1])
def test_a_torn_file_is_removed_at_the_start(tmp_path: Path, length: int) -> None:
    shelf = Shelf(host=0, folder=tmp_path)
    shelf.put("abcdef")
    [path] = shelf.files()
    path.write_bytes(path.read_bytes()[:length])
    again = Shelf(host=0, folder=tmp_path)
    assert again.files() == []
    assert again.store.entries() == []
    assert again.store.disk_bytes == 0


def test_files_that_are_not_ours_are_removed(tmp_path: Path) -> None:
    shelf = Shelf(folder=tmp_path)
    assert shelf.disk is not None
    for name in (f"other{SUFFIX}", "half.part", "note.txt"):
        (shelf.disk._folder / name).write_text("not cells")
    if sys.platform != "win32":
        os.mkfifo(shelf.disk._folder / f"pipe{SUFFIX}")
    assert Shelf(folder=tmp_path).files() == []


def test_another_models_files_are_not_loaded_and_give_way(tmp_path: Path) -> None:
    other = Store(disk=Disk(tmp_path, "another", limit_bytes=10_000))
    other.put(tokens("abc"), 0, cells("abc"))
    shelf = Shelf(host=0, folder=tmp_path, disk=Disk.file_bytes(3, 300))
    assert shelf.reach("abc") == 0
    assert shelf.store.disk_bytes > 0
    shelf.put("xyz")
    assert shelf.reach("xyz") == 3
    assert list((tmp_path / "another").iterdir()) == []


def test_a_file_that_vanished_is_a_lost_copy_and_no_error(tmp_path: Path) -> None:
    shelf = Shelf(host=0, folder=tmp_path)
    shelf.put("abc")
    [path] = shelf.files()
    path.unlink()
    assert shelf.get("abc") is None
    assert shelf.put("abc")


def test_a_disk_that_cannot_be_written_is_a_lost_copy_and_no_error(tmp_path: Path) -> None:
    shelf = Shelf(host=0, folder=tmp_path)
    assert shelf.disk is not None
    shelf.disk._folder.rmdir()
    assert not shelf.put("abc")
    assert shelf.store.disk_bytes == 0


def test_nobody_else_may_read_what_is_on_disk(tmp_path: Path) -> None:
    shelf = Shelf(folder=tmp_path)
    assert shelf.disk is not None
    assert shelf.disk._folder.stat().st_mode & 0o077 == 0
