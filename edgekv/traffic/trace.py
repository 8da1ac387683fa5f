"""Recorded requests: when they came, how long they were, which began alike. Never their text.

Read are EdgeKV's own recordings and Mooncake's JSON lines, of which they are a superset, and the
CSV of the Azure inference traces, which says nothing of prefixes.

    {"timestamp": 1200, "input_length": 300, "output_length": 50, "hash_ids": [0, 1, 2, 3, 4]}
    TIMESTAMP,ContextTokens,GeneratedTokens
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import msgspec
from msgspec.structs import replace

from edgekv.core.events import FinishReason
from edgekv.core.request import Priority, Token
from edgekv.errors import BadTrace, Overloaded

MOONCAKE_BLOCK_TOKENS = 512
"""Tokens of a block in traces that do not say it: Mooncake's."""
FAR_SECONDS = 1e6
"""Longer than any answer takes."""
AZURE_HEADER = "TIMESTAMP,ContextTokens,GeneratedTokens"


class Row(msgspec.Struct, frozen=True):
    """A line of a recording. What Mooncake's traces do not have has a default."""

    timestamp: float
    """Milliseconds since any moment."""
    input_length: int
    output_length: int
    hash_ids: tuple[int, ...] = ()
    """One for each block of the prompt; equal ids are equal blocks behind an equal beginning."""
    block_tokens: int = MOONCAKE_BLOCK_TOKENS
    outcome: str = "finished"
    """Or "cancelled", or the code of an error."""
    priority: Priority = Priority.NORMAL
    max_tokens: int | None = None
    """How long the answer was allowed to get. None: as long as a conversation may."""
    reused: int | None = None
    """Prompt tokens that needed no computing."""
    first_token_ms: float | None = None
    """Since the request came."""
    total_ms: float | None = None


@dataclass(frozen=True, slots=True)
class Traced:
    """One request of a trace."""

    number: int
    arrival_seconds: float
    """Since the first one."""
    row: Row

    @property
    def num_answer(self) -> int:
        """Tokens of the answer; what was recorded without any had been about to begin."""
        return max(1, self.row.output_length)

    @property
    def leaves_seconds(self) -> float | None:
        """When whoever asked gave up, as seconds since the first request; None if nobody did."""
        total_ms = self.row.total_ms
        if self.row.outcome != FinishReason.CANCELLED.value or total_ms is None:
            return None
        return self.arrival_seconds + total_ms / 1000

    @property
    def prompt(self) -> tuple[Token, ...]:
        """Tokens that are equal to those of another request where its blocks are."""
        row = self.row
        if not row.hash_ids:
            # Negative, for ids of blocks are not.
            first = -1 - (self.number << 32)
            return tuple(Token(first - i) for i in range(row.input_length))
        tokens = (
            Token(block * row.block_tokens + i)
            for block in row.hash_ids
            for i in range(row.block_tokens)
        )
        return tuple(token for token, _ in zip(tokens, range(row.input_length), strict=False))


@dataclass(frozen=True, slots=True)
class Trace:
    requests: tuple[Traced, ...]

    @property
    def knows_prefixes(self) -> bool:
        return any(request.row.hash_ids for request in self.requests)

    @property
    def seconds(self) -> float:
        """From the first arrival to the last."""
        return self.requests[-1].arrival_seconds if self.requests else 0.0

    def faster(self, factor: float) -> Trace:
        """The same requests, coming so many times as fast."""
        return Trace(
            tuple(Traced(r.number, r.arrival_seconds / factor, r.row) for r in self.requests)
        )

    def apart(self) -> Trace:
        """The same requests, so far from each other that nobody waits for anybody."""
        return Trace(
            tuple(Traced(r.number, n * FAR_SECONDS, r.row) for n, r in enumerate(self.requests))
        )

    def no_longer_than(self, num_tokens: int) -> Trace:
        """Without the requests that one conversation has no room for."""
        kept = (r for r in self.requests if r.row.input_length + r.row.output_length <= num_tokens)
        return Trace(tuple(kept))


def read_trace(path: Path) -> Trace:
    """Raises `BadTrace` with the line that is wrong."""
    try:
        with path.open(encoding="utf-8-sig") as lines:
            first = lines.readline()
            lines.seek(0)
            rows = list(_azure(lines) if first.strip() == AZURE_HEADER else _json_lines(lines))
    except OSError as error:
        raise BadTrace(f"{path} cannot be read: {error.strerror}.") from None
    except (UnicodeDecodeError, ValueError) as error:
        raise BadTrace(
            f"{path} is neither a recording of EdgeKV, nor Mooncake's JSON lines, nor Azure's CSV: "
            f"{error}."
        ) from None
    if not rows:
        raise BadTrace(f"{path} holds no request.")
    rows = sorted(_as_asked(rows), key=lambda row: row.timestamp)
    start = rows[0].timestamp
    return Trace(
        tuple(Traced(n, (row.timestamp - start) / 1000, row) for n, row in enumerate(rows))
    )


def _as_asked(rows: list[Row]) -> Iterator[Row]:
    """With an answer of average length for those that were turned away: they asked for one."""
    lengths = [row.output_length for row in rows if row.outcome == "finished"] or [1]
    average = max(1, sum(lengths) // len(lengths))
    for row in rows:
        if row.outcome == Overloaded.code:
            most = average if row.max_tokens is None else row.max_tokens
            row = replace(row, output_length=min(average, most))
        yield row


def _json_lines(lines: Iterable[str]) -> Iterator[Row]:
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            row = msgspec.json.decode(line, type=Row)
        except msgspec.DecodeError as error:
            raise ValueError(f"line {number}: {error}") from None
        yield _checked(row, number)


def _azure(lines: Iterable[str]) -> Iterator[Row]:
    for number, record in enumerate(csv.DictReader(lines), start=2):
        try:
            # Seven decimals are one more than Python reads.
            moment = datetime.fromisoformat(record["TIMESTAMP"][:26])
            lengths = int(record["ContextTokens"]), int(record["GeneratedTokens"])
        except (TypeError, ValueError) as error:
            raise ValueError(f"line {number}: {error}") from None
        yield _checked(Row(moment.timestamp() * 1000, *lengths), number)


def _checked(row: Row, number: int) -> Row:
    most = 1 if row.max_tokens is None else row.max_tokens
    if min(row.input_length, row.output_length + 1, row.block_tokens, most) < 1:
        raise ValueError(f"line {number}: lengths must be positive")
    if row.hash_ids and len(row.hash_ids) * row.block_tokens < row.input_length:
        raise ValueError(
            f"line {number}: {len(row.hash_ids)} blocks of {row.block_tokens} tokens are fewer "
            f"than {row.input_length} tokens"
        )
    if any(block < 0 for block in row.hash_ids):
        raise ValueError(f"line {number}: block ids must not be negative")
    return row
