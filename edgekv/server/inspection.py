"""What the server tells of itself: models, health, metrics, plan, cells, tokens, prompts."""

from __future__ import annotations

import time
from typing import Annotated, Any, ClassVar

import msgspec
from msgspec import Meta
from prometheus_client import CONTENT_TYPE_LATEST
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from edgekv.core.request import Segment, Token
from edgekv.errors import NotReady
from edgekv.server.bodies import body_of
from edgekv.server.chat_request import ChatRequest
from edgekv.server.errors import json_response
from edgekv.server.messages import to_messages
from edgekv.server.schema import Neutral, TokenId, parse
from edgekv.server.served import ServedModel
from edgekv.service.worker import LoadStep, State


class TokenizeRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`content` is text; with `parse_special` its control tokens are control tokens."""

    neutral: ClassVar[Neutral] = {}

    content: str
    parse_special: bool = False

    def check(self) -> None:
        pass


class DetokenizeRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    neutral: ClassVar[Neutral] = {}

    tokens: Annotated[list[TokenId], Meta(max_length=1_000_000)]

    def check(self) -> None:
        pass


class Inspection:
    def __init__(self, model: ServedModel) -> None:
        self._model = model
        self._started = int(time.time())
        self._load = LoadStep(State.STARTING)

    def on_progress(self, step: LoadStep) -> None:
        self._load = step

    def routes(self) -> list[Route]:
        return [
            Route("/v1/models", self.models),
            Route("/v1/models/{name:path}", self.model),
            Route("/tokenize", self.tokenize, methods=["POST"]),
            Route("/detokenize", self.detokenize, methods=["POST"]),
            Route("/apply-template", self.apply_template, methods=["POST"]),
            Route("/health", self.health),
            Route("/metrics", self.metrics),
            Route("/plan", self.plan),
            Route("/kv", self.kv),
        ]

    async def models(self, _: Request) -> Response:
        return json_response({"object": "list", "data": [self._card()]})

    async def model(self, request: Request) -> Response:
        self._model.checked(request.path_params["name"])
        return json_response(self._card())

    async def tokenize(self, request: Request) -> Response:
        asked = parse(await body_of(request), TokenizeRequest)
        self._model.checked(None)
        segments = (Segment(asked.content, control=asked.parse_special),)
        tokens = await self._model.worker.tokenize(segments)
        return json_response({"tokens": tokens})

    async def detokenize(self, request: Request) -> Response:
        asked = parse(await body_of(request), DetokenizeRequest)
        self._model.checked(None)
        text = await self._model.worker.detokenize(tuple(map(Token, asked.tokens)))
        return json_response({"content": text})

    async def apply_template(self, request: Request) -> Response:
        """The prompt that a chat completion with this body would have."""
        asked = parse(await body_of(request), ChatRequest)
        self._model.checked(asked.model)
        prompt = await self._model.prompt(
            to_messages(asked.messages),
            asked.tool_use(),
            asked.reasoning_effort,
            is_plain=asked.grammar() is not None,
        )
        return json_response({"prompt": "".join(segment.text for segment in prompt.segments)})

    async def health(self, _: Request) -> Response:
        """200 only if a request would be answered now."""
        state: str = self._model.worker.state.value
        is_first_load = self._model.worker.allocation is None
        if state in (State.STARTING, State.PLANNING, State.LOADING) and not is_first_load:
            state = State.RESTARTING.value
        health: dict[str, Any] = {"status": state}
        if state == State.LOADING:
            health["loaded"] = round(self._load.fraction, 2)
        return json_response(health, 200 if state == State.READY else 503)

    async def metrics(self, _: Request) -> Response:
        return Response(self._model.metrics.text(), media_type=CONTENT_TYPE_LATEST)

    async def plan(self, _: Request) -> Response:
        """The plan's own JSON, and beside it what was really allocated and how short memory is."""
        plan, allocation = self._model.worker.plan, self._model.worker.allocation
        if plan is None or allocation is None:
            raise NotReady("The model is still loading; try again in a moment.")
        measured = msgspec.to_builtins(allocation.buffers)
        watched = msgspec.to_builtins(self._model.worker.watch.view())
        return json_response({**msgspec.to_builtins(plan), "measured": measured, "memory": watched})

    async def kv(self, _: Request) -> Response:
        """Who holds which cells, what is stored, and why the last prompts were computed."""
        self._model.checked(None)
        found = await self._model.worker.inspect()
        view = msgspec.to_builtins(found.view)
        starts = msgspec.to_builtins(found.starts)
        return json_response({"num_cells": found.num_cells, **view, "starts": starts})

    def _card(self) -> dict[str, Any]:
        self._model.checked(None)
        assert self._model.worker.plan is not None
        return {
            "id": self._model.name,
            "object": "model",
            "created": self._started,
            "owned_by": "edgekv",
            "context_length": self._model.worker.plan.choice.context_length,
        }
