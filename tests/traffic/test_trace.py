"""Traces of several kinds read alike, and blocks that tell only who begins alike."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from edgekv.errors import BadTrace
from edgekv.traffic.blocks import BLOCK_TOKENS, block_ids
from edgekv.traffic.trace import Row, Traced, read_trace

MOONCAKE = (
    '{"timestamp": 27482, "input_length": 6, "output_length": 5, "hash_ids": [46, 47]}\n'
    '{"timestamp": 30535, "input_length": 3, "output_length": 2, "hash_ids": [46]}\n'
)
AZURE = (
    "TIMESTAMP,ContextTokens,GeneratedTokens\n"
    "2023-11-16 18:17:03.9799600,4808,10\n"
    "2023-11-16 18:17:04.0319600,3180,8\n"
)


def written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "trace"
    path.write_text(text, encoding="utf-8")
    return path


def test_mooncakes_lines_are_read_as_they_are(tmp_path: Path) -> None:
    trace = read_trace(written(tmp_path, MOONCAKE))
    assert [r.row.input_length for r in trace.requests] == [6, 3]
    assert [r.arrival_seconds for r in trace.requests] == [0, pytest.approx(3.053)]
    assert trace.requests[0].row.block_tokens == 512
    assert trace.knows_prefixes


def test_azures_csv_is_read_and_knows_no_prefixes(tmp_path: Path) -> None:
    trace = read_trace(written(tmp_path, AZURE))
    assert [(r.row.input_length, r.row.output_length) for r in trace.requests] == [
        (4808, 10),
        (3180, 8),
    ]
    assert trace.requests[1].arrival_seconds == pytest.approx(0.052, abs=1e-6)
    assert not trace.knows_prefixes
    first, second = (set(r.prompt) for r in trace.requests)
    assert not first & second, "nobody knows of any prefix, so none is shared"


def test_equal_blocks_are_equal_tokens_up_to_the_length_of_the_prompt() -> None:
    def prompt(blocks: tuple[int, ...], length: int) -> tuple[int, ...]:
        return Traced(0, 0.0, Row(0, length, 1, blocks, block_tokens=4)).prompt

    long, short = prompt((7, 9, 8), 10), prompt((7, 9, 3), 10)
    assert len(long) == 10
    assert long[:8] == short[:8]
    assert not set(long[8:]) & set(short[8:])


def test_requests_come_in_their_order_whatever_order_the_lines_have(tmp_path: Path) -> None:
    lines = "".join(reversed(MOONCAKE.splitlines(keepends=True)))
    trace = read_trace(written(tmp_path, lines))
    assert [r.row.input_length for r in trace.requests] == [6, 3]
    assert trace.faster(2).seconds == pytest.approx(trace.seconds / 2)
    assert [r.row.input_length for r in trace.no_longer_than(10).requests] == [3]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "holds no request"),
        ("hello\n", "line 1"),
        ('{"timestamp": 0, "input_length": 5}\n', "output_length"),
        ('{"timestamp": 0, "input_length": 0, "output_length": 1}\n', "positive"),
        ('{"timestamp": 0, "input_length": 600, "output_length": 1, "hash_ids": [1]}\n', "fewer"),
        ('{"timestamp": 0, "input_length": 6, "output_length": 1, "hash_ids": [-1]}\n', "negative"),
        ("TIMESTAMP,ContextTokens,GeneratedTokens\nyesterday,1,1\n", "line 2"),
        ("TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:17:03,1\n", "line 2"),
    ],
)
def test_what_is_no_trace_is_refused_with_the_line(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(BadTrace, match=words):
        read_trace(written(tmp_path, text))


def test_a_file_that_is_not_there_is_said(tmp_path: Path) -> None:
    with pytest.raises(BadTrace, match="cannot be read"):
        read_trace(tmp_path / "none")


def test_blocks_are_named_by_all_that_is_before_them() -> None:
    salt = b"s" * 32
    tokens = list(range(3 * BLOCK_TOKENS))
    ids = block_ids(tokens, salt)
    assert len(ids) == 3
    assert block_ids(tokens[: 2 * BLOCK_TOKENS], salt) == ids[:2]
    changed = block_ids([99, *tokens[1:]], salt)
    assert not set(changed) & set(ids), "another beginning makes all that follows another"
    assert not set(block_ids(tokens, b"t" * 32)) & set(ids), "and so does another salt"


def test_ids_of_blocks_are_read_exactly_by_any_reader_of_json() -> None:
    (number,) = block_ids([1, 2, 3], b"s")
    assert number < 2**53
    assert json.loads(json.dumps(number)) == number


def test_who_was_turned_away_is_taken_to_have_asked_for_an_average_answer(tmp_path: Path) -> None:
    path = tmp_path / "trace.jsonl"
    rows = [
        {"timestamp": 0, "input_length": 9, "output_length": 30},
        {"timestamp": 1, "input_length": 9, "output_length": 50},
        {"timestamp": 2, "input_length": 9, "output_length": 0, "outcome": "overloaded"},
        {"timestamp": 3, "input_length": 9, "output_length": 0, "outcome": "overloaded"}
        | {"max_tokens": 8},
    ]
    path.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    assert [r.num_answer for r in read_trace(path).requests] == [30, 50, 40, 8]
