"""/openapi.json tells of every endpoint that is there, and of no other."""

from __future__ import annotations

import httpx
import pytest

from edgekv.server.api import Api
from edgekv.service.worker import Worker

pytestmark = pytest.mark.anyio

METHODS = {"GET", "POST", "DELETE"}


async def test_the_document_names_what_can_be_asked(
    client: httpx.AsyncClient, worker: Worker
) -> None:
    """But for what attached terminals ask, which is between EdgeKV and itself."""
    there = {
        (route.path.replace(":path", ""), method)
        for route in Api(worker).routes()
        for method in METHODS & (route.methods or set())
        if not route.path.startswith("/attach")
    }
    paths = (await client.get("/openapi.json")).json()["paths"]
    told = {
        (path, method.upper())
        for path, item in paths.items()
        for method in item
        if method.upper() in METHODS
    }
    assert told == there


async def test_no_two_parts_of_requests_have_one_name(client: httpx.AsyncClient) -> None:
    """Those would be told apart by our modules, which are nothing to somebody else's code."""
    schemas = (await client.get("/openapi.json")).json()["components"]["schemas"]
    assert [name for name in schemas if not name.isalnum()] == []
