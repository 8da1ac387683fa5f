"""Workers on other machines: who is there, and what an answer does when one of them is not."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Awaitable, Callable
from contextlib import ExitStack
from pathlib import Path

import psutil
import pytest

from edgekv.budget.wish import Wish
from edgekv.core.events import Delta, Finished, FinishReason
from edgekv.core.frames import Submit
from edgekv.core.plan import DeviceInfo
from edgekv.core.request import RequestId, SamplingParams, Segment, TextPrompt, Token
from edgekv.errors import DoesNotFit
from edgekv.service import remote_workers, starting
from edgekv.service.remote_workers import find_workers
from edgekv.service.states import State
from edgekv.service.worker import Worker
from tests.lenders import MIB, Lender, lender

STOP = Token(48124)
"""A starter-model token whose text is "STOP"."""
NUM_TOKENS = 60

Answer = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


def find(answer: Answer) -> remote_workers.Workers:
    """What is found of a worker that behaves like `answer`."""

    async def run() -> remote_workers.Workers:
        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await answer(reader, writer)
            writer.close()

        async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
            return await find_workers([f"127.0.0.1:{server.sockets[0].getsockname()[1]}"])

    return asyncio.run(run())


async def greet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *version: int) -> None:
    await reader.readexactly(9 + 24)
    writer.write(struct.pack("<Q", 28) + bytes([*version, 0]) + bytes(24))


def test_one_that_answers_is_timed_and_left() -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await greet(reader, writer, 7, 0, 0)
        for _ in range(remote_workers.NUM_ROUND_TRIPS):
            await reader.readexactly(9)
            writer.write(struct.pack("<QI", 4, 1))
        assert await reader.read() == b""

    found = find(answer)
    assert found.left_out == ()
    (worker,) = found.present
    assert worker.latency_ms > 0
    (device,) = found.timed([DeviceInfo("RPC0", "rpc", worker.address, 1, 1)])
    assert device.latency_ms == worker.latency_ms


def test_one_of_another_version_is_named_and_left_out() -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await greet(reader, writer, 6, 2, 0)

    found = find(answer)
    assert found.present == ()
    assert "speaks version 6.2 of llama.cpp's protocol and this is 7.0" in found.left_out[0]


@pytest.mark.parametrize("said", [b"", b"HTTP/1.1 400 Bad Request\r\n\r\n"])
def test_what_is_no_worker_is_left_out(said: bytes) -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readexactly(33)
        writer.write(said)

    assert find(answer).left_out[0].endswith("what answers there is no worker; check the port.")


def test_one_that_serves_somebody_else_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote_workers, "SECONDS_TO_ANSWER", 0.05)

    async def answer(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
        await reader.read()

    assert "it serves somebody else" in find(answer).left_out[0]


def always_stop() -> Submit:
    """A request whose every token is forced, so that its text is known."""
    params = SamplingParams(temperature=0, logit_bias=((STOP, 1000.0),))
    return Submit(RequestId("a"), TextPrompt((Segment("The robot", True),)), NUM_TOKENS, params)


async def read(worker: Worker, at_token: Callable[[int], None]) -> str:
    text, last = "", None
    async for event in worker.stream(always_stop()):
        if isinstance(event, Delta):
            text += event.text
            at_token(event.num_tokens)
        last = event
    assert last == Finished(RequestId("a"), FinishReason.LENGTH, NUM_TOKENS)
    return text


def wish(*lenders: Lender, gpu_layers: int | None = None, memory_bytes: int | None = None) -> Wish:
    return Wish(
        context_length=512,
        slots=1,
        gpu_layers=gpu_layers,
        memory_bytes=memory_bytes,
        workers=tuple(one.address for one in lenders),
    )


@pytest.mark.llama
def test_an_answer_goes_on_when_one_of_three_workers_dies(starter_model: Path) -> None:
    async def run(lenders: list[Lender]) -> None:
        worker = Worker(str(starter_model), wish(*lenders, gpu_layers=30))
        await worker.start()
        try:
            assert worker.plan is not None
            assert worker.plan.fits
            assert [device.kind for device in worker.plan.devices] == ["cpu", *["rpc"] * 3]
            assert all(worker.plan.choice.worker_layers)
            dying = lenders[1]

            def kill_once(num_tokens: int) -> None:
                if num_tokens >= 10 and dying.process.returncode is None:
                    dying.kill()

            assert await read(worker, kill_once) == "STOP" * NUM_TOKENS
            assert worker.num_restarts == 1
            assert worker.state is State.READY
            first, last = worker.plan.choice.worker_layers
            assert first + last == 30
            assert any(f"The worker {dying.address} is left out" in s for s in worker.plan.limits)
        finally:
            await worker.close()

    with ExitStack() as stack:
        patch = stack.enter_context(pytest.MonkeyPatch.context())
        patch.setattr(starting, "SECONDS_TO_COME_BACK", 0.0)
        sizes = (35 * MIB, 35 * MIB, 120 * MIB)
        asyncio.run(run([stack.enter_context(lender(size)) for size in sizes]))


@pytest.mark.llama
def test_an_engine_waits_for_a_worker_whose_process_starts_again(starter_model: Path) -> None:
    async def run(one: Lender) -> None:
        worker = Worker(str(starter_model), wish(one, gpu_layers=3))
        await worker.start()
        (child,) = psutil.Process(one.process.pid).children()
        killed: list[psutil.Process] = []

        def kill_once(num_tokens: int) -> None:
            if num_tokens >= 10 and not killed:
                child.kill()
                killed.append(child)

        try:
            assert await read(worker, kill_once) == "STOP" * NUM_TOKENS
            assert worker.num_restarts == 1
            assert worker.plan is not None
            assert worker.plan.choice.worker_layers == (3,)
        finally:
            await worker.close()

    with pytest.MonkeyPatch.context() as patch, lender(60 * MIB) as one:
        # However busy this machine is.
        patch.setattr(starting, "SECONDS_TO_COME_BACK", 600.0)
        asyncio.run(run(one))


@pytest.mark.llama
def test_a_plan_is_tried_by_the_engine_that_answers_where_workers_serve_it(
    starter_model: Path,
) -> None:
    async def run(one: Lender) -> None:
        worker = Worker(str(starter_model), wish(one, gpu_layers=4))
        await worker.start()
        try:
            desk = worker.desk
            assert desk is not None
            draft = await desk.draft(wish(one, gpu_layers=6))
            assert worker.plan is not None
            assert worker.plan.choice.worker_layers == (4,)
            assert draft.plan.choice.worker_layers == (6,)
            with pytest.raises(DoesNotFit):
                await desk.draft(wish(one, memory_bytes=80 * MIB))
            await desk.take(draft)
            assert worker.plan.choice == draft.plan.choice
            assert await read(worker, lambda _: None) == "STOP" * NUM_TOKENS
        finally:
            await worker.close()

    with lender(120 * MIB) as one:
        asyncio.run(run(one))


@pytest.mark.llama
def test_what_does_not_fit_without_a_worker_that_is_away_names_it(starter_model: Path) -> None:
    async def run(gone: Lender) -> None:
        worker = Worker(str(starter_model), wish(gone, memory_bytes=120 * MIB))
        with pytest.raises(DoesNotFit, match=f"The worker {gone.address} is left out: nothing"):
            await worker.make_plan()

    with lender(MIB) as gone:
        gone.kill()
    asyncio.run(run(gone))
