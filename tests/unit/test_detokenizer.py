from __future__ import annotations

import tracemalloc
from codecs import getincrementaldecoder
from collections.abc import Sequence
from itertools import pairwise

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from edgekv.engine.detokenizer import TextStream


def stream(pieces: Sequence[bytes], stop: Sequence[str] = ()) -> tuple[list[str], TextStream]:
    """What each piece released, and last what `finish` did."""
    text = TextStream(stop)
    return [*map(text.push, pieces), text.finish()], text


def letter_by_letter(text: str, stop: Sequence[str]) -> tuple[str, bool]:
    """The definition: stop at the first letter that completes a stop string."""
    for end in range(1, len(text) + 1):
        met = [s for s in stop if text[:end].endswith(s)]
        if met:
            return text[: end - max(map(len, met))], True
    return text, False


def divided(whole: bytes, cuts: set[int]) -> list[bytes]:
    borders = [0, *sorted(c for c in cuts if c < len(whole)), len(whole)]
    return [whole[a:b] for a, b in pairwise(borders)]


# Few letters, one of two and one of four bytes, so that stop strings are met and nearly met.
letters = st.text(alphabet="abé😀", max_size=30)
stops = st.lists(st.text(alphabet="abé😀", min_size=1, max_size=4), max_size=3)
cuts = st.sets(st.integers(1, 80))


@settings(deadline=None)
@given(letters, stops, cuts)
@example("aab", ["ab"], {1, 2})
@example("abab!", ["abac"], {1})
@example("abcd", ["abcd", "bc"], {4})
def test_pieces_make_no_difference(text: str, stop: list[str], cuts: set[int]) -> None:
    released, end = stream(divided(text.encode(), cuts), stop)
    assert ("".join(released), end.stopped) == letter_by_letter(text, stop)


@settings(deadline=None)
@given(st.binary(max_size=40), cuts)
def test_any_bytes_become_the_text_of_the_whole(whole: bytes, cuts: set[int]) -> None:
    released, _ = stream(divided(whole, cuts))
    assert "".join(released) == getincrementaldecoder("utf-8")("replace").decode(whole)


@settings(deadline=None)
@given(letters, stops, cuts)
def test_what_is_released_can_never_become_a_stop_string(
    text: str, stop: list[str], cuts: set[int]
) -> None:
    live, told = TextStream(stop), ""
    for piece in divided(text.encode(), cuts):
        told += live.push(piece)
        assert not any(s in told for s in stop)


@settings(deadline=None)
@given(letters, cuts)
def test_without_stop_strings_no_whole_character_is_held_back(text: str, cuts: set[int]) -> None:
    live, told, given_so_far = TextStream(), "", b""
    for piece in divided(text.encode(), cuts):
        told += live.push(piece)
        given_so_far += piece
        assert told == given_so_far.decode("utf-8", "ignore")


def test_a_character_waits_for_all_of_its_bytes() -> None:
    smile = "😀".encode()
    assert stream([smile[:1], smile[1:3], smile[3:]])[0] == ["", "", "😀", ""]


def test_an_unfinished_character_at_the_end_is_dropped() -> None:
    assert stream([b"ok", "é".encode()[:1]])[0] == ["ok", "", ""]


def test_bytes_that_can_never_be_text_are_marked() -> None:
    assert stream([b"a\xff", b"\xc3", b"b"])[0] == ["a\ufffd", "", "\ufffdb", ""]


def test_a_stop_string_is_met_across_pieces_and_inside_one() -> None:
    released, end = stream([b"Hello.Us", b"er: and more", b" and more"], ["User:"])
    assert released == ["Hello.", "", "", ""]
    assert end.stopped


def test_text_is_released_when_it_cannot_become_a_stop_string_any_more() -> None:
    assert stream([b"Hello.Us", b"ain"], ["User:"])[0] == ["Hello.", "Usain", ""]


def test_held_text_is_released_at_the_end() -> None:
    released, end = stream([b"Hello.Us"], ["User:"])
    assert released == ["Hello.", "Us"]
    assert not end.stopped


def test_only_what_is_needed_is_held_back() -> None:
    assert stream([b"ababa"], ["abac"])[0] == ["ab", "aba"]


def test_the_stop_string_that_is_complete_first_counts() -> None:
    assert stream([b"xabcdx"], ["abcd", "bc"])[0] == ["xa", ""]


def test_an_empty_stop_string_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one character"):
        TextStream(("ok", ""))


def test_a_long_stop_string_takes_no_more_memory_than_itself() -> None:
    stop = "ab" * 4000  # a table of its beginnings would have 32 MB
    tracemalloc.start()
    try:
        released, _ = stream([b"abab", b"x", b"ab"], [stop])
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert released == ["", "ababx", "", "ab"]
    assert peak_bytes < 10 * len(stop)
