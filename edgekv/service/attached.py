"""A model that a server of this program holds, used as if it were this process's own."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection
from dataclasses import fields
from typing import TypeVar
from urllib.parse import urlsplit

import httpx2
import msgspec
from msgspec.structs import replace

from edgekv.budget.wish import Wish
from edgekv.core.events import AnswerStream, Failed, Finished
from edgekv.core.frames import Inspection, Snapshot, Submit
from edgekv.core.plan import Choice, MemoryPlan, ModelFacts
from edgekv.core.request import RequestId, Segment, Token
from edgekv.errors import EdgeKVError, NotReady, Unavailable, restore
from edgekv.service.attach_frames import ID_PREFIX, VERSION, Ask, Card, Split, SplitUp, decode_event
from edgekv.service.report import Report
from edgekv.service.states import LoadStep, State

ANYTHING = Wish()
SECONDS_BETWEEN_LOOKS = 0.5
SECONDS_OF_SILENCE = 60.0
"""A server says something every five seconds while it answers; nothing else takes longer than
one step of its engine."""

IN_CHOICE = {"context_length", "slots", "cells", "kv_type_k", "kv_type_v", "gpu_layers", "threads"}
"""What a wish and a plan's choice both name. The rest of a wish limits memory that a terminal
attached to a server does not take."""

T = TypeVar("T")


class AttachedWorker:
    """A `ModelHost` behind a URL. Belongs to one asyncio loop."""

    desk = None
    """The plan is its server's."""

    def __init__(
        self,
        url: str,
        key: str | None,
        wish: Wish = ANYTHING,
        transport: httpx2.AsyncBaseTransport | None = None,
    ) -> None:
        """`wish` is what the server's plan must keep."""
        self.where, self._key, self._wish, self._transport = url, key, wish, transport
        self._client = self._connected()
        self._own: set[RequestId] = set()
        self._looking: asyncio.Task[None] | None = None
        self._last = Report()
        self.state = State.STARTING
        self.facts: ModelFacts | None = None
        self.name = ""

    @property
    def plan(self) -> MemoryPlan | None:
        return self._last.plan

    @property
    def snapshot(self) -> Snapshot:
        return self._last.snapshot

    @property
    def own_requests(self) -> Collection[RequestId] | None:
        return self._own

    async def start(self, on_progress: Callable[[LoadStep], None] = lambda _: None) -> None:
        """Wait until the server's model is loaded. Raises `Unavailable` if there is no such server,
        or one of another version or with another plan.
        """
        if self._client.is_closed:
            self._client = self._connected()
        on_progress(LoadStep(State.LOADING))
        while (card := await self._card()) is None:
            await asyncio.sleep(SECONDS_BETWEEN_LOOKS)
        if card.version != VERSION:
            raise Unavailable(
                f"The server at {self.where} is another version of EdgeKV; "
                "start it again with this one, or use --attach none."
            )
        self.facts, self.name = card.facts, card.name
        plan = (await self.report()).plan
        if plan is None or not keeps(plan.choice, self._wish):
            raise Unavailable(
                f"The server at {self.where} was started with other options; "
                "leave yours out, or use --attach none."
            )
        self.state = State.READY
        self._looking = asyncio.create_task(self._look())
        on_progress(LoadStep(State.READY))

    async def stream(self, submit: Submit) -> AnswerStream:
        """As `Worker.stream`; raises `Unavailable` if the server is gone."""
        ask = msgspec.json.encode(Ask.of(submit))
        own_id = RequestId(ID_PREFIX + submit.request_id)
        self._own.add(own_id)
        try:
            async with self._client.stream("POST", "/attach/stream", content=ask) as answer:
                if answer.status_code != 200:
                    await answer.aread()
                    raise self._refusal(answer)
                async for line in answer.aiter_lines():
                    if not line.startswith("data: "):
                        continue
                    told = decode_event(line.removeprefix("data: ").encode())
                    if isinstance(told, Failed):
                        raise told.error.to_error()
                    yield replace(told, request_id=submit.request_id)
                    if isinstance(told, Finished):
                        return
            raise Unavailable(self._gone("ended in the middle of the answer"))
        except httpx2.HTTPError as error:
            raise Unavailable(self._gone(_reason(error))) from None
        finally:
            self._own.discard(own_id)

    async def tokenize(self, segments: tuple[Segment, ...]) -> tuple[Token, ...]:
        return (await self._ask("/attach/tokens", SplitUp, Split(segments))).tokens

    async def inspect(self) -> Inspection:
        found = await self._ask("/attach/inspection", Inspection)
        starts = tuple(
            replace(start, request_id=RequestId(start.request_id.removeprefix(ID_PREFIX)))
            for start in found.starts
        )
        return replace(found, starts=starts)

    async def report(self) -> Report:
        self._last = await self._ask("/engine", Report)
        return self._last

    async def close(self) -> None:
        """Leave the server. Safe to call twice; `start` comes back to it."""
        self.state = State.CLOSED
        if self._looking is not None:
            self._looking.cancel()
            await asyncio.gather(self._looking, return_exceptions=True)
        await self._client.aclose()

    def _connected(self) -> httpx2.AsyncClient:
        is_near = (urlsplit(self.where).hostname or "") in {"127.0.0.1", "localhost", "::1"}
        return httpx2.AsyncClient(
            base_url=self.where,
            headers={"Authorization": f"Bearer {self._key}"} if self._key else {},
            timeout=SECONDS_OF_SILENCE,
            # A proxy that this machine's own addresses are sent to could not reach them.
            trust_env=not is_near,
            transport=self._transport,
        )

    async def _look(self) -> None:
        while True:
            await asyncio.sleep(SECONDS_BETWEEN_LOOKS)
            try:
                await self.report()
                self.state = State.READY
            except EdgeKVError:
                self.state = State.RESTARTING

    async def _card(self) -> Card | None:
        """None while the server loads."""
        try:
            return await self._ask("/attach", Card)
        except NotReady:
            return None

    async def _ask(self, path: str, kind: type[T], body: object = None) -> T:
        method = "GET" if body is None else "POST"
        content = None if body is None else msgspec.json.encode(body)
        try:
            answer = await self._client.request(method, path, content=content)
            if answer.status_code != 200:
                raise self._refusal(answer)
            return msgspec.json.decode(answer.content, type=kind)
        except httpx2.HTTPError as error:
            raise Unavailable(self._gone(_reason(error))) from None
        except msgspec.DecodeError:
            raise Unavailable(self._gone("is not one of this version of EdgeKV")) from None

    def _refusal(self, answer: httpx2.Response) -> EdgeKVError:
        """The server's own error, if it sent one."""
        try:
            error = msgspec.json.decode(answer.content)["error"]
            return restore(error["code"], error["message"], error.get("param"))
        except (msgspec.DecodeError, KeyError, TypeError):
            return Unavailable(self._gone(f"answers with status {answer.status_code}"))

    def _gone(self, what: str) -> str:
        return f"The server at {self.where} {what}; start it again, or use --attach none."


def keeps(choice: Choice, wish: Wish) -> bool:
    """Whether a plan's choice is what was wished, as far as both name it."""
    wished = {field.name: getattr(wish, field.name) for field in fields(wish)}
    return all(wished[name] is None or wished[name] == getattr(choice, name) for name in IN_CHOICE)


def _reason(error: httpx2.HTTPError) -> str:
    return "does not answer" if isinstance(error, httpx2.TransportError) else str(error)
