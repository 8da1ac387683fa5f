"""What a worker is asked, written down, on the strict fake."""

from __future__ import annotations

from pathlib import Path

import pytest

from edgekv.core.frames import Submit
from edgekv.core.request import RequestId, Segment, TextPrompt
from edgekv.errors import PromptTooLong
from edgekv.service.conduct import Conduct
from edgekv.traffic.recorder import Recorder
from edgekv.traffic.trace import read_trace
from tests.fakes import FakeLibrary
from tests.server.in_loop_engine import in_loop_worker

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


def ask(name: str, text: str) -> Submit:
    return Submit(RequestId(name), TextPrompt((Segment(text, control=False),)))


async def test_requests_of_a_worker_become_a_trace_that_tells_who_began_alike(
    tmp_path: Path,
) -> None:
    path = tmp_path / "trace.jsonl"
    common = "You are a lighthouse keeper and answer in one sentence. " * 3
    with in_loop_worker(FakeLibrary(answer="The light is on.")) as (worker, _):
        worker.conduct = Conduct(recorder=Recorder(path))
        await worker.start()
        for name, text in (("a", "Is it on?"), ("b", "Is it off?")):
            async for _ in worker.stream(ask(name, common + text)):
                pass
        with pytest.raises(PromptTooLong):
            await anext(worker.stream(ask("c", "long " * 500)))
        await worker.close()
    first, second, refused = (request.row for request in read_trace(path).requests)
    assert first.input_length == 1 + len(common + "Is it on?"), "a token a byte, and the first one"
    assert first.output_length == len("The light is on.")
    assert second.reused is not None
    assert second.reused >= len(common)
    assert first.hash_ids[:2] == second.hash_ids[:2]
    assert first.hash_ids[-1] != second.hash_ids[-1]
    assert refused.outcome == "context_length_exceeded"
    assert b"light" not in path.read_bytes()
