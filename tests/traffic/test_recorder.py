"""What a server writes down of its requests, and what it never does."""

from __future__ import annotations

import stat
from collections.abc import AsyncGenerator, AsyncIterator
from pathlib import Path

import msgspec
import pytest

from edgekv.core.events import Delta, Finished, FinishReason, Started, StreamEvent
from edgekv.core.frames import Submit
from edgekv.core.request import RequestId, Segment, TextPrompt, Token, TokenPrompt
from edgekv.errors import Unavailable
from edgekv.traffic.recorder import Recorder
from edgekv.traffic.trace import Row, read_trace

pytestmark = pytest.mark.anyio

ID = RequestId("r")
SECRET = "my secret words"
EVENTS: tuple[StreamEvent, ...] = (
    Started(ID, 15, 4),
    Delta(ID, "Hello", 1),
    Delta(ID, " there", 2),
    Finished(ID, FinishReason.STOP, 3),
)


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


class Clock:
    """Every look is a second later."""

    now = 0.0

    def __call__(self) -> float:
        self.now += 1
        return self.now


async def tokenise(segments: tuple[Segment, ...]) -> tuple[Token, ...]:
    return tuple(Token(ord(letter)) for segment in segments for letter in segment.text)


async def stream(
    *events: StreamEvent, error: Exception | None = None
) -> AsyncGenerator[StreamEvent]:
    for event in events:
        yield event
    if error is not None:
        raise error


async def record(path: Path, events: AsyncGenerator[StreamEvent], submit: Submit) -> list[Row]:
    recorder = Recorder(path, Clock())
    try:
        async for _ in recorder.watch(submit, events, tokenise):
            pass
    finally:
        recorder.close()
    return rows(path)


def rows(path: Path) -> list[Row]:
    return [msgspec.json.decode(line, type=Row) for line in path.read_bytes().splitlines()]


def submit() -> Submit:
    return Submit(ID, TextPrompt((Segment(SECRET, control=False),)), max_tokens=7)


async def test_lengths_times_and_blocks_are_written_and_no_text(tmp_path: Path) -> None:
    path = tmp_path / "trace.jsonl"
    (row,) = await record(path, stream(*EVENTS), submit())
    assert (row.input_length, row.output_length, row.reused) == (len(SECRET), 3, 4)
    assert (row.outcome, len(row.hash_ids), row.block_tokens) == ("finished", 1, 16)
    assert (row.first_token_ms, row.max_tokens) == (1000, 7)
    assert row.total_ms == 2000
    assert b"secret" not in path.read_bytes()
    assert b"Hello" not in path.read_bytes()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


async def test_a_recording_is_a_trace(tmp_path: Path) -> None:
    path = tmp_path / "trace.jsonl"
    await record(path, stream(*EVENTS), submit())
    await record(path, stream(*EVENTS), submit())
    assert len(read_trace(path).requests) == 2, "later ones are added"


async def test_a_request_that_fails_is_written_with_its_error(tmp_path: Path) -> None:
    path = tmp_path / "trace.jsonl"
    with pytest.raises(Unavailable):
        await record(path, stream(*EVENTS[:2], error=Unavailable("no")), submit())
    (row,) = rows(path)
    assert (row.outcome, row.output_length) == ("unavailable", 1)


async def test_a_caller_that_leaves_is_written_as_one(tmp_path: Path) -> None:
    path = tmp_path / "trace.jsonl"
    recorder = Recorder(path, Clock())
    events: AsyncIterator[StreamEvent] = recorder.watch(submit(), stream(*EVENTS), tokenise)
    await anext(events)
    await events.aclose()  # type: ignore[attr-defined]
    recorder.close()
    (row,) = rows(path)
    assert (row.outcome, row.output_length, row.first_token_ms) == ("cancelled", 0, None)


async def test_tokens_need_no_tokeniser(tmp_path: Path) -> None:
    prompt = TokenPrompt((Token(1), Token(2)))
    (row,) = await record(tmp_path / "t", stream(*EVENTS), Submit(ID, prompt))
    assert row.input_length == 2


async def test_a_file_that_cannot_be_written_is_refused_at_once(tmp_path: Path) -> None:
    with pytest.raises(Unavailable, match="Nothing can be recorded"):
        Recorder(tmp_path / "no" / "folder")
