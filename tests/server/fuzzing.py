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
from schemathesis.generation import GenerationMode

from edgekv.server.openapi import POSTS
from tests.conftest import MODELS
from tests.server.served import Served, serve

MODES = (GenerationMode.POSITIVE, GenerationMode.NEGATIVE)
PATIENCE_SECONDS = 60
ALLOWED = {501, 503}
"""What this machine or this plan has not."""
OPTIONS = ("--ctx", "256", "--slots", "2")
LIMITS = {
    "/v1/chat/completions": "max_completion_tokens",
    "/v1/completions": "max_tokens",
    "/v1/responses": "max_output_tokens",
    "/v1/messages": "max_tokens",
}
LONGEST_ANSWER = 8
"""Tokens. What is tried is how requests are read, not how long a model can go on."""
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
        @given(strategy)
        def check(case: Any) -> None:
            if mode is GenerationMode.POSITIVE:
                shorten(path, case.body)
            response = case.call(timeout=PATIENCE_SECONDS)
            self.statuses[path, response.status_code] += 1
            assert response.status_code < 500 or response.status_code in ALLOWED, response.text
            if response.status_code >= 400:
                assert set(response.json()["error"]) == {"message", "type", "param", "code"}

        check()

    def check_alive(self) -> None:
        """Raises `AssertionError` if the server is not as it was at the start."""
        assert httpx.get(f"{self._url}/health").json() == {"status": "ready"}
        assert "edgekv_engine_restarts_total 0.0" in httpx.get(f"{self._url}/metrics").text


def shorten(path: str, body: Any) -> None:
    """Give a request that may be answered a short answer."""
    limit = LIMITS.get(path)
    if limit is not None and isinstance(body, dict):
        body[limit] = min(body.get(limit) or LONGEST_ANSWER, LONGEST_ANSWER)


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
