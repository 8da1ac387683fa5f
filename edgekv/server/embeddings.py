"""/v1/embeddings."""

from __future__ import annotations

import base64
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, ClassVar, Literal

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from edgekv.core.request import Prompt, Segment, TextPrompt, Token
from edgekv.errors import InvalidValue
from edgekv.server.bodies import body_of
from edgekv.server.completion_request import prompts_of
from edgekv.server.errors import json_response
from edgekv.server.schema import Neutral, parse
from edgekv.server.served import ServedModel
from edgekv.server.sse import while_connected

MOST_TEXTS = 2048
"""As many as OpenAI takes."""


class EmbeddingsRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    neutral: ClassVar[Neutral] = {"dimensions": ()}

    model: str | None = None
    input: str | list[Any]
    encoding_format: Literal["float", "base64"] | None = None

    def check(self) -> None:
        pass


class Embedding(msgspec.Struct, frozen=True):
    index: int
    embedding: str | tuple[float, ...]
    object: Literal["embedding"] = "embedding"


class EmbeddingsUsage(msgspec.Struct, frozen=True):
    prompt_tokens: int
    total_tokens: int


class EmbeddingsAnswer(msgspec.Struct, frozen=True):
    model: str
    data: tuple[Embedding, ...]
    usage: EmbeddingsUsage
    object: Literal["list"] = "list"


class Embeddings:
    def __init__(self, model: ServedModel) -> None:
        self._model = model

    def routes(self) -> list[Route]:
        return [Route("/v1/embeddings", self.embed, methods=["POST"])]

    async def embed(self, request: Request) -> Response:
        asked = parse(await body_of(request), EmbeddingsRequest)
        self._model.checked(asked.model)
        answer = await while_connected(request.receive, self._answer(asked))
        return json_response(answer)

    async def _answer(self, asked: EmbeddingsRequest) -> EmbeddingsAnswer:
        prompts = prompts_of("input", asked.input, MOST_TEXTS)
        texts = [await self._tokens(i, prompt) for i, prompt in enumerate(prompts)]
        vectors: list[tuple[float, ...]] = []
        # One by one, so that the rest is not computed for a client that left.
        for tokens in texts:
            with self._model.lacking(), _blaming_input():
                vectors += await self._model.worker.embed((tokens,))
        in_base64 = asked.encoding_format == "base64"
        count = sum(map(len, texts))
        return EmbeddingsAnswer(
            self._model.name,
            tuple(Embedding(i, _base64(v) if in_base64 else v) for i, v in enumerate(vectors)),
            EmbeddingsUsage(count, count),
        )

    async def _tokens(self, index: int, prompt: Prompt) -> tuple[Token, ...]:
        if not isinstance(prompt, TextPrompt):
            return prompt.tokens
        text = "".join(segment.text for segment in prompt.segments)
        if not text:
            raise InvalidValue("input", f"input: text {index} is empty; there is nothing to embed.")
        return await self._model.worker.tokenize((Segment(text, control=False),))


@contextmanager
def _blaming_input() -> Iterator[None]:
    """What the engine says of a prompt is said of the field that it came in."""
    try:
        yield
    except InvalidValue as error:
        error.param = "input"
        raise


def _base64(vector: tuple[float, ...]) -> str:
    """Little-endian 32-bit floats, which OpenAI's clients read."""
    return base64.b64encode(struct.pack(f"<{len(vector)}f", *vector)).decode()
