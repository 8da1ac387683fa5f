"""What the server tells of itself: its model, health, metrics, plan, cells, engine."""

from __future__ import annotations

import time
from typing import Any

import msgspec
from msgspec.structs import replace
from prometheus_client import CONTENT_TYPE_LATEST
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from edgekv.errors import NotReady
from edgekv.server.errors import json_response
from edgekv.server.served import ServedModel
from edgekv.service.states import LoadStep, State


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
            Route("/health", self.health),
            Route("/metrics", self.metrics),
            Route("/plan", self.plan),
            Route("/kv", self.kv),
            Route("/engine", self.engine),
        ]

    async def models(self, _: Request) -> Response:
        return json_response({"object": "list", "data": [self._card()]})

    async def model(self, request: Request) -> Response:
        self._model.checked(request.path_params["name"])
        return json_response(self._card())

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

    async def engine(self, _: Request) -> Response:
        """What runs and waits, who holds which cells, how evenly answers flow, and where the load
        leads.
        """
        report = await self._model.worker.report()
        return json_response(replace(report, load=self._model.load.forecast))

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
