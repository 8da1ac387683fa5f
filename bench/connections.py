"""Connections of clients that measure: one for each request, so that no server pays for ours."""

from __future__ import annotations

import openai

PATIENCE_SECONDS = 3600.0


def connected(url: str) -> openai.AsyncOpenAI:
    """A client of the server there that uses no connection again, and sends nothing twice.

    A server may close a connection that was idle for some seconds (llama-server and uvicorn after
    5) in the very moment in which a client that kept it sends the next request. That one then fails
    though the server answers every request it gets, and nobody may send it again unasked: it may
    have been read.
    """
    return openai.AsyncOpenAI(
        base_url=url,
        api_key="none",
        max_retries=0,
        timeout=PATIENCE_SECONDS,
        default_headers={"Connection": "close"},
    )


def told(error: openai.APIError) -> str:
    """What went wrong, and what was behind it where that is not said."""
    behind = error.__cause__
    return str(error) if behind is None else f"{error} ({type(behind).__name__}: {behind})"
