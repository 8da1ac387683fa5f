"""Everything that one model answers over HTTP."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from edgekv.errors import EdgeKVError, Overloaded
from edgekv.server.anthropic import Messages
from edgekv.server.attached_terminals import AttachedTerminals
from edgekv.server.completions import Completions
from edgekv.server.embeddings import Embeddings
from edgekv.server.errors import error_response, json_response
from edgekv.server.inspection import Inspection
from edgekv.server.openapi import document
from edgekv.server.responses import Responses
from edgekv.server.served import ServedModel
from edgekv.server.tokens import Tokens
from edgekv.service.states import LoadStep
from edgekv.service.worker import Worker


class Api:
    """One model behind HTTP."""

    def __init__(self, worker: Worker) -> None:
        self._model = ServedModel(worker)
        self._inspection = Inspection(self._model)

    def on_progress(self, step: LoadStep) -> None:
        """For `Worker.start`: what /health tells while the model loads."""
        self._inspection.on_progress(step)

    async def watch_load(self) -> None:
        """Until cancelled."""
        await self._model.load.run()

    async def close(self) -> None:
        await self._model.close()

    def routes(self) -> list[Route]:
        parts = (
            Completions(self._model),
            Embeddings(self._model),
            Responses(self._model),
            Messages(self._model),
            Tokens(self._model),
            AttachedTerminals(self._model),
            self._inspection,
        )
        return [
            *(route for part in parts for route in part.routes()),
            Route("/openapi.json", self.describe),
        ]

    async def describe(self, _: Request) -> Response:
        return json_response(document())

    def answer_error(self, request: Request, error: EdgeKVError) -> Response:
        if request.method == "POST":
            self._model.count(error)
        wait = self._model.load.expected_wait() if isinstance(error, Overloaded) else None
        return error_response(error, wait)
