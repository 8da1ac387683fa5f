"""Requests that nobody thought of, made from /openapi.json.

python -m tests.server.fuzzing --minutes 10      # `make fuzz`: other requests each time
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

import httpx
import schemathesis
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from schemathesis.generation import GenerationMode

from edgekv.server.openapi import POSTS
from tests.conftest import MODELS
from tests.server.served import Served, serve

MODES = (GenerationMode.POSITIVE, GenerationMode.NEGATIVE)
PATIENCE_SECONDS = 60
ALLOWED = {501, 503, 504}
"""What this machine or this plan has not, and a deadline that the request set itself."""
OPTIONS = ("--ctx", "256", "--slots", "2")
LIMITS = {
    "/v1/chat/completions": "max_completion_tokens",
    "/v1/completions": "max_tokens",
    "/v1/responses": "max_output_tokens",
    "/v1/messages": "max_tokens",
}
LONGEST_ANSWER = 8
"""Tokens. What is tried is how requests are read, not how long a model can go on."""
PLAIN: dict[str, Any] = {
    "messages": [{"role": "user", "content": "Hello"}],
    "input": "Hello",
    "prompt": "Hello",
    "logit_bias": {"0": 1},
    "tools": None,
    "tool_choice": None,
}
EXAMPLES_A_ROUND = 20


class Fuzz:
    """`statuses` counts the answers so far, by path and status."""

    def __init__(self, served: Served) -> None:
        self._url = served.url
        self.statuses: Counter[tuple[str, int]] = Counter()

    def send(self, path: str, mode: GenerationMode, **options: Any) -> None:
        """Send requests of one kind; raises `AssertionError` for one that is answered wrongly.

        `options` are Hypothesis's: how many, and which.
        """
        document = schemathesis.openapi.from_url(f"{self._url}/openapi.json")
        strategy = document[path]["POST"].as_strategy(generation_mode=mode)

        @settings(deadline=None, suppress_health_check=list(HealthCheck), **options)
        @given(strategy, st.booleans())
        def check(case: Any, is_plain: bool) -> None:
            if mode is GenerationMode.POSITIVE and isinstance(case.body, dict):
                case.body |= answerable(path, case.body, is_plain=is_plain)
            response = case.call(timeout=PATIENCE_SECONDS)
            self.statuses[path, response.status_code] += 1
            assert response.status_code < 500 or response.status_code in ALLOWED, response.text
            if response.status_code >= 400:
                assert set(response.json()["error"]) == {"message", "type", "param", "code"}

        check()

    def check_alive(self) -> None:
        """Raises `AssertionError` if the server is not as it was at the start."""
        assert httpx.get(f"{self._url}/health", timeout=PATIENCE_SECONDS).json() == {
            "status": "ready"
        }
        metrics = httpx.get(f"{self._url}/metrics", timeout=PATIENCE_SECONDS).text
        assert "edgekv_engine_restarts_total 0.0" in metrics


def answerable(path: str, body: dict[str, Any], *, is_plain: bool) -> dict[str, Any]:
    """What to change so that a request has a chance of an answer, and of a short one.

    With `is_plain` its words are ordinary, and only what is asked of them is odd.
    """
    changes: dict[str, Any] = {"model": "local"} if "model" in body else {}
    if (limit := LIMITS.get(path)) is not None:
        changes[limit] = min(body.get(limit) or LONGEST_ANSWER, LONGEST_ANSWER)
    if is_plain:
        changes |= {field: PLAIN[field] for field in PLAIN.keys() & body.keys()}
    return changes


def main(write: Callable[[str], object] = sys.stdout.write) -> None:
    parser = argparse.ArgumentParser(description="Send odd requests for a while; count answers.")
    parser.add_argument("--minutes", type=float, default=10)
    end = time.monotonic() + 60 * parser.parse_args().minutes
    with serve(MODELS / "SmolLM2-135M-Instruct.Q4_1.gguf", *OPTIONS) as served:
        fuzz = Fuzz(served)
        while time.monotonic() < end:
            for path in POSTS:
                for mode in MODES:
                    if time.monotonic() < end:
                        fuzz.send(path, mode, max_examples=EXAMPLES_A_ROUND)
            fuzz.check_alive()
    for (path, status), count in sorted(fuzz.statuses.items()):
        write(f"{count:7,}  {status}  {path}\n")
    write(f"{fuzz.statuses.total():7,}  in all; the server is alive and was never restarted\n")


if __name__ == "__main__":
    main()
