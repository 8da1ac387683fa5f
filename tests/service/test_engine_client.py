"""A real engine process at the other end of the pipe."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path

import psutil
import pytest

from edgekv.core.events import Delta, Finished, FinishReason, Started
from edgekv.core.frames import Cancel, Describe, Described, Open, Submit
from edgekv.core.plan import Choice, Opening
from edgekv.core.request import RequestId, SamplingParams, Segment, TextPrompt
from edgekv.errors import EngineDied, ModelError, Unavailable
from edgekv.kv.swap import FEWEST_CELLS
from edgekv.service.engine_client import EngineClient, EventQueue

pytestmark = pytest.mark.llama

CHOICE = Choice(
    context_length=256,
    slots=2,
    cells=512,
    kv_type_k="q8_0",
    kv_type_v="q8_0",
    gpu_layers=0,
    batch=64,
    ubatch=64,
    swa_full=True,
    flash_attention=True,
    threads=2,
)
PATIENCE_SECONDS = 600
"""However busy this machine is."""


def with_client(use: Callable[[EngineClient], Awaitable[None]]) -> None:
    async def run() -> None:
        client = await EngineClient.start()
        try:
            async with asyncio.timeout(PATIENCE_SECONDS):
                await use(client)
        finally:
            await client.close()
        assert not psutil.pid_exists(client.pid)

    asyncio.run(run())


async def open_model(client: EngineClient, path: Path) -> None:
    opening = Opening(str(path), CHOICE)
    await client.call(lambda call: Open(call, opening))


def ask(client: EngineClient, name: str, max_tokens: int) -> EventQueue:
    request_id = RequestId(name)
    queue = client.open_stream(request_id)
    prompt = TextPrompt((Segment("The robot", True),))
    sampling = SamplingParams(temperature=0)
    client.send(Submit(request_id, prompt, max_tokens, sampling, ignore_end=True))
    return queue


def test_a_real_answer_comes_through_the_pipe(starter_model: Path) -> None:
    async def use(client: EngineClient) -> None:
        await open_model(client, starter_model)
        queue = ask(client, "a", max_tokens=5)
        events = [await queue.get()]
        while not isinstance(events[-1], Finished):
            events.append(await queue.get())
        assert isinstance(events[0], Started)
        assert "".join(e.text for e in events if isinstance(e, Delta)).strip()
        assert events[-1] == Finished(RequestId("a"), FinishReason.LENGTH, 5)
        assert client.snapshot.tokens_generated == 5

    with_client(use)


def test_what_is_kept_is_on_disk_though_the_process_is_told_to_end_at_once(
    starter_model: Path, tmp_path: Path
) -> None:
    async def use(client: EngineClient) -> None:
        opening = Opening(
            str(starter_model), CHOICE, store_path=str(tmp_path), disk_cache_bytes=10**9
        )
        await client.call(lambda call: Open(call, opening))
        queue = ask(client, "a", max_tokens=200)
        num_tokens = 0
        while num_tokens < FEWEST_CELLS:
            event = await queue.get()
            num_tokens = event.num_tokens if isinstance(event, Delta) else 0
        client.send(Cancel(RequestId("a")))

    with_client(use)
    assert list(tmp_path.rglob("*.cells"))


def test_a_killed_engine_ends_its_streams_and_calls(starter_model: Path) -> None:
    async def use(client: EngineClient) -> None:
        await open_model(client, starter_model)
        queue = ask(client, "a", max_tokens=200)
        assert isinstance(await queue.get(), Started)
        os.kill(client.pid, signal.SIGKILL)
        while not isinstance(event := await queue.get(), EngineDied):
            pass
        assert "signal 9" in str(event)
        with pytest.raises(EngineDied):
            await client.call(lambda call: Describe(call, str(starter_model)))
        assert isinstance(await client.open_stream(RequestId("late")).get(), EngineDied)

    with_client(use)


def test_a_call_that_the_engine_dies_of_is_answered(starter_model: Path) -> None:
    async def use(client: EngineClient) -> None:
        asked = asyncio.create_task(client.call(lambda call: Describe(call, str(starter_model))))
        os.kill(client.pid, signal.SIGKILL)
        with pytest.raises(EngineDied):
            await asked

    with_client(use)


@pytest.mark.skipif(sys.platform == "win32", reason="such an end is a signal elsewhere")
def test_an_engine_for_another_processor_is_not_taken_for_a_broken_model(
    starter_model: Path,
) -> None:
    async def use(client: EngineClient) -> None:
        asked = asyncio.create_task(client.call(lambda call: Describe(call, str(starter_model))))
        os.kill(client.pid, signal.SIGILL)
        with pytest.raises(Unavailable, match=r"built for another processor .* 'edgekv doctor'"):
            await asked

    with_client(use)


def test_a_hung_engine_is_killed_when_it_owes_an_answer(starter_model: Path) -> None:
    async def run() -> None:
        client = await EngineClient.start(seconds_of_silence=1)
        os.kill(client.pid, signal.SIGSTOP)
        with pytest.raises(EngineDied, match="no sign of life for 1 seconds"):
            await client.call(lambda call: Describe(call, str(starter_model)))
        await client.close()

    asyncio.run(run())


def test_a_refusal_arrives_as_the_error_it_is(tmp_path: Path) -> None:
    async def use(client: EngineClient) -> None:
        with pytest.raises(ModelError, match="no model file"):
            await client.call(lambda call: Describe(call, str(tmp_path / "absent.gguf")))

    with_client(use)


def test_describing_takes_no_memory_for_weights(gemma_model: Path) -> None:
    async def use(client: EngineClient) -> None:
        reply = await client.call(lambda call: Describe(call, str(gemma_model)))
        assert isinstance(reply, Described)
        assert reply.resident_bytes < reply.facts.weight_bytes

    with_client(use)


def test_the_engine_ends_with_its_parent() -> None:
    """The parent is killed without a word; the child notices that its stdin ended."""
    parent = subprocess.Popen(
        [
            sys.executable,
            "-c",
            "import asyncio\n"
            "from edgekv.service.engine_client import EngineClient\n"
            "async def main():\n"
            "    client = await EngineClient.start()\n"
            "    print(client.pid, flush=True)\n"
            "    await asyncio.Event().wait()\n"
            "asyncio.run(main())",
        ],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert parent.stdout is not None
    child = psutil.Process(int(parent.stdout.readline()))
    parent.kill()
    parent.wait()
    parent.stdout.close()
    child.wait(timeout=PATIENCE_SECONDS)


def test_what_others_print_stays_out_of_the_frames() -> None:
    script = (
        "import os\n"
        "from edgekv.service.engine_child import _take_stdout\n"
        "frames = _take_stdout()\n"
        "print('python prints', flush=True)\n"
        "os.system('echo C prints')\n"
        "frames.write(b'frame')"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, check=True)
    assert done.stdout == b"frame"
    assert b"python prints" in done.stderr
    assert b"C prints" in done.stderr
