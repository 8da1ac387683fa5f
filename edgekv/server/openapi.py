"""/openapi.json: the requests, made from the very types that check them."""

from __future__ import annotations

from typing import Any

import msgspec

from edgekv import __version__
from edgekv.server.anthropic_request import CountRequest, MessagesRequest
from edgekv.server.chat_request import ChatRequest
from edgekv.server.completion_request import CompletionRequest
from edgekv.server.embeddings import EmbeddingsRequest
from edgekv.server.errors import ErrorAnswer
from edgekv.server.responses_request import ResponsesRequest
from edgekv.server.tokens import DetokenizeRequest, TokenizeRequest

POSTS: dict[str, tuple[type[msgspec.Struct], str]] = {
    "/v1/chat/completions": (ChatRequest, "Answer a conversation"),
    "/v1/completions": (CompletionRequest, "Continue texts or lists of tokens"),
    "/v1/embeddings": (EmbeddingsRequest, "A vector for each text"),
    "/v1/responses": (ResponsesRequest, "Answer a conversation, as OpenAI's Responses API"),
    "/v1/messages": (MessagesRequest, "Answer a conversation, as Anthropic's Messages API"),
    "/v1/messages/count_tokens": (CountRequest, "How long the prompt of a message would be"),
    "/tokenize": (TokenizeRequest, "Text to tokens"),
    "/detokenize": (DetokenizeRequest, "Tokens to text"),
    "/apply-template": (ChatRequest, "The prompt of a conversation"),
}

GETS = {
    "/v1/models": "The models that are served",
    "/health": "Whether a request would be answered now",
    "/metrics": "Prometheus metrics",
    "/plan": "What memory was planned and what was allocated",
    "/kv": "Who holds which cells",
    "/engine": "What runs and waits, who holds which cells, and how evenly answers flow",
    "/openapi.json": "This document",
}

ONE_OF_MANY: dict[str, dict[str, str]] = {
    "/v1/models/{name}": {"get": "One of the models"},
    "/v1/responses/{id}": {"get": "A response that was kept", "delete": "Forget a response"},
}
"""What is done to the one that the path names."""

ERROR_STATUSES = ("400", "401", "403", "404", "413", "429", "500", "501", "503", "504")


def document() -> dict[str, Any]:
    types = [ErrorAnswer, *dict.fromkeys(kind for kind, _ in POSTS.values())]
    schemas, components = msgspec.json.schema_components(
        types, ref_template="#/components/schemas/{name}"
    )
    named = dict(zip(types, schemas, strict=True))
    errors = {status: _content("An error", named[ErrorAnswer]) for status in ERROR_STATUSES}
    paths: dict[str, Any] = {
        path: {"get": {"summary": summary, "responses": {"200": _done(path), **errors}}}
        for path, summary in GETS.items()
    }
    for path, methods in ONE_OF_MANY.items():
        paths[path] = {
            "parameters": [_parameter(path)],
            **{
                method: {"summary": summary, "responses": {"200": _done(path), **errors}}
                for method, summary in methods.items()
            },
        }
    for path, (kind, summary) in POSTS.items():
        body = {"required": True, "content": {"application/json": {"schema": named[kind]}}}
        responses = {"200": _done(path), **errors}
        paths[path] = {"post": {"summary": summary, "requestBody": body, "responses": responses}}
    return {
        "openapi": "3.1.0",
        "info": {"title": "EdgeKV", "version": __version__},
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {"key": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{}, {"key": []}],
    }


def _parameter(path: str) -> dict[str, Any]:
    """The one in the braces at the end of a path."""
    name = path[path.index("{") + 1 : -1]
    return {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}


def _content(description: str, schema: dict[str, Any]) -> dict[str, Any]:
    return {"description": description, "content": {"application/json": {"schema": schema}}}


def _done(path: str) -> dict[str, Any]:
    kinds = ["text/plain"] if path == "/metrics" else ["application/json", "text/event-stream"]
    return {"description": "Done", "content": {kind: {} for kind in kinds}}
