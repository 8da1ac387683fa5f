"""A suspended answer keeps its copies while others lose theirs."""

from __future__ import annotations

from pathlib import Path

from edgekv.kv.claims import Claim, Rank
from edgekv.kv.disk import Disk
from tests.unit.test_store import Shelf, tokens


def claimed(shelf: Shelf, text: str, rank: Rank = Rank.SUSPENDED) -> Claim:
    claim = shelf.store.claim(tokens(text), rank)
    shelf.store.check_integrity()
    return claim


def there(shelf: Shelf, *texts: str) -> list[bool]:
    return [shelf.reach(text) == len(text) for text in texts]


def test_what_is_claimed_outlives_what_was_used_later() -> None:
    shelf = Shelf(host=600)
    shelf.put("ab")
    claimed(shelf, "ab")
    for text in ("cd", "ef", "gh", "ij"):
        shelf.put(text)
    assert there(shelf, "ab", "cd", "ef", "gh", "ij") == [True, False, False, True, True]


def test_a_claim_may_come_before_the_copy() -> None:
    shelf = Shelf(host=600)
    claimed(shelf, "ab")
    for text in ("ab", "cd", "ef", "gh"):
        shelf.put(text)
    assert there(shelf, "ab", "cd") == [True, False]


def test_what_is_kept_finds_no_room_where_all_is_claimed() -> None:
    shelf = Shelf(host=400)
    for text in ("ab", "cd"):
        shelf.put(text)
        claimed(shelf, text)
    assert not shelf.put("ef")
    assert there(shelf, "ab", "cd") == [True, True]


def test_a_suspended_answer_comes_before_a_pinned_prompt_and_that_before_the_rest() -> None:
    shelf = Shelf(host=400)
    shelf.put("ab")
    shelf.put("pi")
    claimed(shelf, "pi", Rank.PINNED)
    for text in ("su", "sp"):
        claimed(shelf, text)
        assert shelf.put(text)
    assert there(shelf, "ab", "pi", "su", "sp") == [False, False, True, True]


def test_only_what_the_answer_goes_on_from_is_claimed() -> None:
    shelf = Shelf(host=800)
    shelf.put("abcd")
    shelf.put("abxy", start=2)
    claimed(shelf, "abcdef")
    shelf.put("1234")
    assert there(shelf, "abcd", "abxy", "1234") == [True, False, True]


def test_a_claim_that_is_released_holds_nothing() -> None:
    shelf = Shelf(host=400)
    shelf.put("ab")
    shelf.store.release(claimed(shelf, "ab"))
    for text in ("cd", "ef"):
        shelf.put(text)
    assert there(shelf, "ab", "cd", "ef") == [False, True, True]


def test_a_copy_stays_as_long_as_one_of_two_answers_needs_it() -> None:
    shelf = Shelf(host=400)
    shelf.put("ab")
    first, _ = claimed(shelf, "abc"), claimed(shelf, "abd")
    shelf.store.release(first)
    for text in ("cd", "ef"):
        shelf.put(text)
    assert there(shelf, "ab") == [True]


def test_on_a_full_disk_too_the_kept_give_way_to_the_suspended(tmp_path: Path) -> None:
    shelf = Shelf(host=0, folder=tmp_path, disk=2 * Disk.file_bytes(2, 200))
    shelf.put("ab")
    claimed(shelf, "ab")
    shelf.put("cd")
    shelf.put("ef")
    assert there(shelf, "ab", "cd", "ef") == [True, False, True]
    claimed(shelf, "ef")
    assert not shelf.put("gh")
    assert there(shelf, "ab", "ef") == [True, True]


def test_what_is_claimed_moves_to_disk_before_anything_is_refused(tmp_path: Path) -> None:
    shelf = Shelf(host=200, folder=tmp_path)
    shelf.put("ab")
    claimed(shelf, "ab")
    assert shelf.put("cd")
    assert there(shelf, "ab", "cd") == [True, True]
    assert shelf.store.host_bytes == 200
