"""The ASGI application: the endpoints, who may reach them, and how every error is answered."""

from __future__ import annotations

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from edgekv.errors import EdgeKVError
from edgekv.server.api import Api
from edgekv.server.bodies import Bodies
from edgekv.server.door import Door, Doorkeeper
from edgekv.server.errors import http_error_response, internal_error_response
from edgekv.server.guard import Access, Guard, Lock, check_key, check_site

CLIENT_LEFT = 499
"""nginx's status for an answer that nobody waits for; only the access log sees it."""


def create_app(
    api: Api, access: Access, door: Door | None = None, lock: Lock | None = None
) -> Starlette:
    """`door` and `lock` are for a caller who means to close the one or change the other."""

    async def edgekv_error(request: Request, error: Exception) -> Response:
        assert isinstance(error, EdgeKVError)
        return api.answer_error(request, error)

    async def http_error(_: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        return http_error_response(error)

    async def client_left(_: Request, __: Exception) -> Response:
        return Response(status_code=CLIENT_LEFT)

    async def mistake(_: Request, __: Exception) -> Response:
        return internal_error_response()

    cors = Middleware(
        CORSMiddleware,
        allow_origins=access.origins,
        allow_methods=["GET", "POST"],
        allow_headers=["*"],
        # A site the user named may ask from the public internet; browsers check that apart.
        allow_private_network=True,
    )
    return Starlette(
        routes=api.routes(),
        middleware=[
            Middleware(Guard, check_site(access)),
            *([cors] if access.origins else []),
            Middleware(Guard, check_key(lock or Lock(access.api_key))),
            Middleware(Doorkeeper, door or Door()),
            Middleware(Bodies),
        ],
        exception_handlers={
            EdgeKVError: edgekv_error,
            HTTPException: http_error,
            ClientDisconnect: client_left,
            Exception: mistake,
        },
    )
