"""Connections of clients that measure: one for each request, so that no server pays for ours."""

from __future__ import annotations

import openai

ONE_A_REQUEST = {"Connection": "close"}
"""For `openai.AsyncOpenAI(default_headers=…)`: no connection is used again.

A server may close a connection that was idle for some seconds (llama-server and uvicorn after 5)
in the very moment in which a client that kept it sends the next request. That one then fails though
the server answers every request it gets, and nobody may send it again unasked: it may have been
read.
"""


def told(error: openai.APIError) -> str:
    """What went wrong, and what was behind it where that is not said."""
    behind = error.__cause__
    return str(error) if behind is None else f"{error} ({type(behind).__name__}: {behind})"
