"""A terminal app that uses a server's model, end to end but for the socket."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable

import httpx2
import pytest

from edgekv.core.events import Delta, Finished, Started
from edgekv.core.frames import Submit
from edgekv.core.request import Priority, RequestId, SamplingParams, Segment, TextPrompt
from edgekv.errors import EngineDied, PromptTooLong, Unavailable
from edgekv.server.api import Api
from edgekv.server.app import create_app
from edgekv.server.guard import Access
from edgekv.service.attach_frames import VERSION, Ask
from edgekv.service.attached import AttachedWorker
from edgekv.service.host import ModelHost
from edgekv.service.states import State
from edgekv.service.worker import Worker
from tests.server.conftest import BASE_URL
from tests.server.in_loop_engine import Engines

pytestmark = pytest.mark.anyio

NAME = "0123456789abcdef" * 2


@pytest.fixture
async def attached(worker: Worker) -> AsyncIterator[AttachedWorker]:
    api = Api(worker)
    app = create_app(api, Access("127.0.0.1", "secret"))
    transport = httpx2.ASGITransport(app)
    attached = AttachedWorker(BASE_URL, "secret", transport=transport)
    await attached.start()
    yield attached
    await attached.close()
    await api.close()


def ask(text: str = "Hello", name: str = NAME, **options: object) -> Submit:
    prompt = TextPrompt((Segment(text, True),))
    return Submit(RequestId(name), prompt, **options)  # type: ignore[arg-type]


async def test_it_offers_what_a_worker_of_its_own_would(
    attached: AttachedWorker, worker: Worker
) -> None:
    host: ModelHost = attached
    assert host.state is State.READY
    assert host.facts == worker.facts
    assert host.plan == worker.plan
    assert host.desk is None
    assert await host.tokenize((Segment("Hello", True),)) == await worker.tokenize(
        (Segment("Hello", True),)
    )


async def test_an_answer_arrives_as_from_a_worker_and_its_request_is_known_as_ones_own(
    attached: AttachedWorker, worker: Worker
) -> None:
    events = [event async for event in attached.stream(ask())]
    assert isinstance(events[0], Started)
    assert "".join(e.text for e in events if isinstance(e, Delta)) == "Hello there, friend."
    assert isinstance(events[-1], Finished)
    assert {event.request_id for event in events} == {NAME}
    [start] = (await attached.inspect()).starts
    assert start.request_id == NAME
    assert attached.own_requests == set()


async def test_while_it_is_answered_the_report_tells_whose_request_it_is(
    attached: AttachedWorker, worker: Worker, engines: Engines
) -> None:
    engines.last.hold()
    reading = asyncio.create_task(_all(attached, ask()))
    await engines.last.hears(Submit)
    assert attached.own_requests == {f"attached-{NAME}"}
    engines.last.go_on()
    assert await reading == "Hello there, friend."
    report = await attached.report()
    assert report.snapshot.tokens_generated == worker.snapshot.tokens_generated
    assert len(report.first_token_seconds) == 1


async def test_errors_arrive_as_what_they_were(attached: AttachedWorker, engines: Engines) -> None:
    with pytest.raises(PromptTooLong, match="513 tokens"):
        await _all(attached, ask("x" * 512))
    engines.last.dies_of_requests = engines.die_of_requests = True
    with pytest.raises(EngineDied):
        await _all(attached, ask(name="f" * 32))


async def test_an_id_in_use_and_words_of_another_version_are_refused(
    attached: AttachedWorker, engines: Engines
) -> None:
    engines.last.hold()
    reading = asyncio.create_task(_all(attached, ask()))
    await engines.last.hears(Submit)
    with pytest.raises(Exception, match="is being answered"):
        await _all(attached, ask())
    engines.last.go_on()
    await reading
    for body in (b"{}", b"[" * 100_000, b'{"request_id": "a\'b", "segments": []}'):
        answer = await attached._client.post("/attach/stream", content=body)
        assert answer.status_code == 400
        assert f"version {VERSION}" in answer.json()["error"]["message"]


async def test_who_left_may_come_back(attached: AttachedWorker) -> None:
    await attached.close()
    assert attached.state is State.CLOSED
    await attached.start()
    assert await _all(attached, ask()) == "Hello there, friend."


async def test_without_the_key_nobody_attaches(attached: AttachedWorker) -> None:
    stranger = AttachedWorker(BASE_URL, "guess", transport=attached._transport)
    with pytest.raises(Exception, match="Send the key"):
        await stranger.start()
    await stranger.close()


@pytest.mark.parametrize(
    ("answers", "sentence"),
    [
        (lambda _: httpx2.Response(200, text="<html>"), "is not one of this version of EdgeKV"),
        (lambda _: httpx2.Response(404, text="no"), "answers with status 404"),
        (lambda _: httpx2.Response(200, json={"version": 0}), "is not one of this version"),
    ],
)
async def test_what_is_no_such_server_is_named_with_the_remedy(
    answers: Callable[[httpx2.Request], httpx2.Response], sentence: str
) -> None:
    transport = httpx2.MockTransport(answers)
    attached = AttachedWorker("http://127.0.0.1:1", None, transport=transport)
    with pytest.raises(Unavailable, match=sentence) as refused:
        await attached.start()
    assert "--attach none" in str(refused.value)
    await attached.close()


def test_every_sampling_option_of_a_chat_survives_the_way() -> None:
    params = SamplingParams(0.1, 2, 0.3, 0.4, 5, 1.1, 0.6, 0.7)
    submit = ask(max_tokens=9, sampling=params, shows_controls=True)
    arrived = Ask.of(submit).submit()
    assert arrived.sampling == params
    assert (arrived.prompt, arrived.max_tokens) == (submit.prompt, 9)
    assert arrived.shows_controls
    assert arrived.priority is Priority.INTERACTIVE


async def _all(attached: AttachedWorker, submit: Submit) -> str:
    texts = [e.text async for e in attached.stream(submit) if isinstance(e, Delta)]
    return "".join(texts)
