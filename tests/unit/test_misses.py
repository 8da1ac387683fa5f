"""Why a prompt was computed again: what differed, or what took its cells."""

from __future__ import annotations

from edgekv.core.inspection import Difference, HeldRun, Lost, Miss
from edgekv.kv.lost_paths import NUM_REMEMBERED, LostPaths
from edgekv.kv.prefix_cache import NO_COPY
from edgekv.kv.store import FULL, Store
from tests.unit.test_prefix_cache import Pool, tokens

TURNS = "system: be kind. user: hello there"


def why(pool: Pool, prompt: str) -> Miss | None:
    acquired = pool.cache.acquire(tokens(prompt), len(prompt))
    assert acquired is not None
    return acquired.miss


def test_what_is_all_there_needs_no_reason() -> None:
    pool = Pool(100, 3)
    pool.keep(TURNS)
    assert why(pool, TURNS + "!") is None


def test_the_first_different_token_is_named_with_its_neighbours_on_both_sides() -> None:
    pool = Pool(100, 3)
    pool.keep(TURNS)
    miss = why(pool, TURNS.replace("kind", "kinder"))
    assert miss is not None
    assert miss.lost is None
    position = TURNS.index(". user")
    there = slice(position - 8, position + 8)
    assert miss.difference == Difference(
        position,
        tuple(tokens(TURNS.replace("kind", "kinder")[there])),
        tuple(tokens(TURNS[there])),
    )


def test_a_conversation_that_goes_on_differs_nowhere() -> None:
    pool = Pool(100, 3)
    pool.keep(TURNS)
    assert why(pool, TURNS + " and more") == Miss(None, None)


def test_a_stored_conversation_is_compared_too() -> None:
    pool = Pool(100, 3, Store(host_limit_bytes=10_000))
    pool.cache.suspend(pool.run(TURNS))
    miss = why(pool, TURNS[:20] + "????")
    assert miss is not None
    assert miss.difference is not None
    assert miss.difference.position == 20


def test_what_was_evicted_without_a_copy_is_said() -> None:
    pool = Pool(40, 3)
    pool.keep(TURNS)
    pool.keep("x" * 30)
    assert why(pool, TURNS) == Miss(None, Lost(len(TURNS) - 1, NO_COPY))


def test_a_copy_that_gave_way_to_newer_ones_is_said() -> None:
    pool = Pool(100, 3, Store(host_limit_bytes=400))
    pool.cache.suspend(pool.run(TURNS))
    pool.cache.suspend(pool.run("x" * 30))
    assert why(pool, TURNS) == Miss(None, Lost(len(TURNS) - 1, FULL))


def test_only_the_latest_losses_are_remembered() -> None:
    lost = LostPaths()
    for number in range(NUM_REMEMBERED + 1):
        lost.note(tokens(chr(100 + number) * 5), "of a reason")
    assert lost.find(tokens("ddd"), 0) is None
    assert lost.find(tokens("eee"), 0) == Lost(3, "of a reason")
    assert lost.find(tokens("eee"), 3) is None


def test_of_several_losses_the_latest_is_told() -> None:
    lost = LostPaths()
    lost.note(tokens("abc"), "the first")
    lost.note(tokens("abcd"), "the second")
    assert lost.find(tokens("abcd"), 0) == Lost(4, "the second")
    assert lost.find(tokens("abc"), 0) == Lost(3, "the second")


def test_the_view_shows_runs_of_cells_with_the_same_holders() -> None:
    pool = Pool(100, 3)
    first = pool.run("system: a")
    second = pool.keep("system: b")
    view = pool.cache.view()
    assert view.runs == (
        HeldRun(0, len("system: "), (first,), (second,)),
        HeldRun(len("system: "), 1, (first,), ()),
        HeldRun(len("system: "), 1, (), (second,)),
    )


def test_the_view_shows_what_is_stored() -> None:
    pool = Pool(100, 3, Store(host_limit_bytes=10_000))
    pool.cache.suspend(pool.run("system: a"))
    [stored] = pool.cache.view().stored
    assert (stored.start, stored.end, stored.in_host_memory, stored.on_disk) == (0, 9, True, False)
