"""The endpoints: each checks a body, asks the worker and writes what it says."""

from __future__ import annotations

import time
import uuid
from pathlib import Path
from typing import Any

import msgspec
from prometheus_client import CONTENT_TYPE_LATEST
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from edgekv.core.frames import Submit
from edgekv.core.plan import ModelFacts
from edgekv.core.request import Priority, Prompt, RequestId
from edgekv.errors import EdgeKVError, NotReady, Overloaded, RequestError, UnknownModel
from edgekv.server.answers import AnswerWriter, ChatShape, Shape, TextShape
from edgekv.server.errors import (
    error_response,
    json_response,
)
from edgekv.server.messages import to_messages
from edgekv.server.metrics import Metrics
from edgekv.server.schema import ChatRequest, CompletionRequest, Generation, parse
from edgekv.server.sse import EventStream, while_connected
from edgekv.service.chat import ChatFormat
from edgekv.service.worker import LoadStep, State, Worker

BODY_LIMIT_BYTES = 16 * 1024 * 1024
ANY_NAME = "local"
"""A client that does not care what the model is called may ask for this."""


class Api:
    """One model behind HTTP."""

    def __init__(self, worker: Worker) -> None:
        self._worker = worker
        self._metrics = Metrics(worker)
        self._chat_format: ChatFormat | None = None
        self._started = int(time.time())
        self._load = LoadStep(State.STARTING)

    def on_progress(self, step: LoadStep) -> None:
        """For `Worker.start`: what /health tells while the model loads."""
        self._load = step

    async def close(self) -> None:
        if self._chat_format is not None:
            await self._chat_format.close()

    def routes(self) -> list[Route]:
        return [
            Route("/v1/chat/completions", self.chat, methods=["POST"]),
            Route("/v1/completions", self.complete, methods=["POST"]),
            Route("/v1/models", self.models),
            Route("/v1/models/{name:path}", self.model),
            Route("/health", self.health),
            Route("/metrics", self.metrics),
            Route("/plan", self.plan),
        ]

    async def chat(self, request: Request) -> Response:
        arrived = time.monotonic()
        asked = parse(await _body(request), ChatRequest)
        facts = self._checked(asked)
        prompt = await self._format(facts).prompt(to_messages(asked.messages))
        submit = _submit(asked, asked.token_limit, prompt, facts)
        return await self._answer(request, asked, submit, ChatShape(), arrived)

    async def complete(self, request: Request) -> Response:
        arrived = time.monotonic()
        asked = parse(await _body(request), CompletionRequest)
        facts = self._checked(asked)
        submit = _submit(asked, asked.token_limit, asked.to_prompt(), facts)
        return await self._answer(request, asked, submit, TextShape(), arrived)

    async def models(self, _: Request) -> Response:
        return json_response({"object": "list", "data": [self._model_card()]})

    async def model(self, request: Request) -> Response:
        self._check_name(self._facts(), request.path_params["name"])
        return json_response(self._model_card())

    async def health(self, _: Request) -> Response:
        """200 only if a request would be answered now."""
        state: str = self._worker.state.value
        is_first_load = self._worker.allocation is None
        if state in (State.STARTING, State.PLANNING, State.LOADING) and not is_first_load:
            state = State.RESTARTING.value
        health: dict[str, Any] = {"status": state}
        if state == State.LOADING:
            health["loaded"] = round(self._load.fraction, 2)
        return json_response(health, 200 if state == State.READY else 503)

    async def metrics(self, _: Request) -> Response:
        return Response(self._metrics.text(), media_type=CONTENT_TYPE_LATEST)

    async def plan(self, _: Request) -> Response:
        """The plan's own JSON, and beside it what the library really allocated."""
        plan, allocation = self._worker.plan, self._worker.allocation
        if plan is None or allocation is None:
            raise NotReady("The model is still loading; try again in a moment.")
        measured = msgspec.to_builtins(allocation.buffers)
        return json_response({**msgspec.to_builtins(plan), "measured": measured})

    def answer_error(self, request: Request, error: EdgeKVError) -> Response:
        if request.method == "POST":
            self._count(error)
        wait = self._metrics.expected_wait() if isinstance(error, Overloaded) else None
        return error_response(error, wait)

    def _count(self, error: EdgeKVError) -> None:
        is_refused = isinstance(error, RequestError | Overloaded | NotReady)
        self._metrics.count("refused" if is_refused else "failed")

    async def _answer(
        self, request: Request, asked: Generation, submit: Submit, shape: Shape, arrived: float
    ) -> Response:
        writer = AnswerWriter(shape, submit.request_id, self._name(self._facts()))
        events = self._metrics.watch(self._worker.stream(submit), arrived)
        if asked.stream:
            chunks = writer.chunks(events, wants_usage=asked.wants_usage)
            return EventStream(chunks, on_error=self._count)
        return json_response(await while_connected(request.receive, writer.whole(events)))

    def _checked(self, asked: Generation) -> ModelFacts:
        facts = self._facts()
        if asked.model is not None:
            self._check_name(facts, asked.model)
        return facts

    def _facts(self) -> ModelFacts:
        """Raises `NotReady` before the first load is done; a restart is the worker's affair."""
        if self._worker.state is State.CLOSED:
            raise NotReady("The server is stopping; send the request again later.")
        facts = self._worker.facts
        if facts is None or self._worker.allocation is None:
            raise NotReady("The model is still loading; try again in a moment.")
        return facts

    def _format(self, facts: ModelFacts) -> ChatFormat:
        if self._chat_format is None:
            self._chat_format = ChatFormat(facts)
        return self._chat_format

    def _name(self, facts: ModelFacts) -> str:
        """The file's: what a file says of itself is often shared by all sizes of a family."""
        return Path(facts.path).stem

    def _check_name(self, facts: ModelFacts, asked: str) -> None:
        path = Path(facts.path)
        if asked not in {self._name(facts), path.name, facts.name, ANY_NAME}:
            raise UnknownModel(asked, self._name(facts))

    def _model_card(self) -> dict[str, Any]:
        facts = self._facts()
        assert self._worker.plan is not None
        return {
            "id": self._name(facts),
            "object": "model",
            "created": self._started,
            "owned_by": "edgekv",
            "context_length": self._worker.plan.choice.context_length,
        }


def _submit(
    asked: Generation, token_limit: int | None, prompt: Prompt, facts: ModelFacts
) -> Submit:
    return Submit(
        request_id=RequestId(uuid.uuid4().hex),
        prompt=prompt,
        max_tokens=token_limit,
        sampling=asked.sampling(facts.num_vocab),
        stop=asked.stop_texts,
        ignore_end=bool(asked.ignore_eos),
        priority=asked.priority or Priority.NORMAL,
    )


async def _body(request: Request) -> bytes:
    """Raises `HTTPException` 413 before more than the limit is in memory."""
    parts: list[bytes] = []
    length = 0
    async for part in request.stream():
        length += len(part)
        if length > BODY_LIMIT_BYTES:
            raise HTTPException(413, f"A body may have {BODY_LIMIT_BYTES} bytes; send less.")
        parts.append(part)
    return b"".join(parts)
