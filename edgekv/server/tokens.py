"""/tokenize, /detokenize and /apply-template: what the model reads in place of words."""

from __future__ import annotations

from typing import Annotated, ClassVar

import msgspec
from msgspec import Meta
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from edgekv.core.request import Segment, Token
from edgekv.server.bodies import body_of
from edgekv.server.chat_request import ChatRequest
from edgekv.server.errors import json_response
from edgekv.server.messages import to_messages
from edgekv.server.schema import Neutral, TokenId, parse
from edgekv.server.served import ServedModel


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


class Tokens:
    def __init__(self, model: ServedModel) -> None:
        self._model = model

    def routes(self) -> list[Route]:
        return [
            Route("/tokenize", self.tokenize, methods=["POST"]),
            Route("/detokenize", self.detokenize, methods=["POST"]),
            Route("/apply-template", self.apply_template, methods=["POST"]),
        ]

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
