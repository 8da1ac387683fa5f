"""A connection that a client keeps for its next request is still there when it comes."""

from __future__ import annotations

import httpx
from starlette.applications import Starlette

from edgekv.server import run


def test_an_idle_connection_is_kept_longer_than_clients_keep_theirs() -> None:
    """Where both give up at once, a request can go into a connection that is just being closed.

    `python -m bench.soak` found it: six of 3,973 requests of OpenAI's client, which keeps idle
    connections as httpx does, ended so.
    """
    client_keeps = httpx.Limits().keepalive_expiry
    assert client_keeps is not None
    kept = run._config(Starlette(), None).timeout_keep_alive
    assert kept == run.SECONDS_IDLE
    assert kept > 10 * client_keeps
