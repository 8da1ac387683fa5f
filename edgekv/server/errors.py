"""The one table from what went wrong to what the caller reads, always as JSON.

{"error": {"message": "…", "type": "invalid_request_error", "param": "messages", "code": "…"}}
"""

from __future__ import annotations

import math
from http import HTTPStatus

import msgspec
from starlette.exceptions import HTTPException
from starlette.responses import Response

from edgekv.errors import (
    DeadlineExceeded,
    DoesNotFit,
    EdgeKVError,
    EngineDied,
    ModelError,
    NotReady,
    Overloaded,
    RequestError,
    SlowReader,
    Unavailable,
    UnknownModel,
)

STATUS: dict[type[EdgeKVError], int] = {
    UnknownModel: 404,
    RequestError: 400,
    Overloaded: 429,
    SlowReader: 408,
    DeadlineExceeded: 504,
    NotReady: 503,
    EngineDied: 500,
    DoesNotFit: 503,
    ModelError: 503,
    Unavailable: 503,
    EdgeKVError: 500,
}
"""The nearest class in an error's ancestry counts."""

RETRY_HEADERS = {
    NotReady: {"Retry-After": "1"},
    # OpenAI's clients obey this one; the request would only end the engine again, or be too late.
    EngineDied: {"x-should-retry": "false"},
    DeadlineExceeded: {"x-should-retry": "false"},
}

HTTP_CODES = {
    400: "invalid_request",
    401: "invalid_api_key",
    403: "forbidden",
    404: "not_found",
    405: "method_not_allowed",
    413: "body_too_large",
    429: "overloaded",
    501: "not_implemented",
}
"""Codes of what the protocol itself refuses."""

HTTP_SENTENCES = {
    404: "There is nothing at this path; /v1/models and /v1/chat/completions are two that exist.",
    405: "This path answers other methods; the Allow header lists them.",
}
"""In place of Starlette's two words."""


class ErrorBody(msgspec.Struct, frozen=True):
    message: str
    type: str
    param: str | None
    code: str


class ErrorAnswer(msgspec.Struct, frozen=True):
    error: ErrorBody


def status_of(error: EdgeKVError) -> int:
    return next(STATUS[cls] for cls in type(error).__mro__ if cls in STATUS)


def answer_of(error: EdgeKVError) -> ErrorAnswer:
    param = getattr(error, "param", None)
    return _answer(status_of(error), str(error), error.code, param)


def error_response(error: EdgeKVError, wait: float | None = None) -> Response:
    """`wait` is after how many seconds asking again makes sense."""
    headers = dict(RETRY_HEADERS.get(type(error), {}))
    if wait is not None:
        headers["Retry-After"] = str(math.ceil(wait))
    return json_response(answer_of(error), status_of(error), headers)


def http_error_response(error: HTTPException) -> Response:
    status = error.status_code
    is_bare = error.detail == HTTPStatus(status).phrase
    message = HTTP_SENTENCES.get(status, error.detail) if is_bare else error.detail
    answer = _answer(status, message, HTTP_CODES.get(status, "http_error"), None)
    return json_response(answer, status, dict(error.headers or {}))


def internal_error_response() -> Response:
    message = "EdgeKV made a mistake; its log says which. Please report it."
    return json_response(_answer(500, message, "internal_error", None), 500)


def json_response(
    body: object, status: int = 200, headers: dict[str, str] | None = None
) -> Response:
    return Response(msgspec.json.encode(body), status, headers, media_type="application/json")


def _answer(status: int, message: str, code: str, param: str | None) -> ErrorAnswer:
    kind = "invalid_request_error" if status < 500 else "server_error"
    return ErrorAnswer(ErrorBody(message, kind, param, code))
