"""docs/first-steps.md is followed to the letter, on a real server."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

from tests.conftest import REPOSITORY
from tests.server.served import serve

pytestmark = pytest.mark.llama

PAGE = (REPOSITORY / "docs/first-steps.md").read_text(encoding="utf-8")
URL = "http://127.0.0.1:8642"


def program() -> str:
    """The Python of the page."""
    block = re.search(r"^    from openai .*?(?=^\S)", PAGE, re.MULTILINE | re.DOTALL)
    assert block is not None
    return "\n".join(line.removeprefix("    ") for line in block[0].splitlines())


def test_its_request_and_its_program_get_answers_and_what_was_read_is_reused(
    starter_model: Path,
) -> None:
    body = re.search(r"-d '(.*)'", PAGE)
    assert body is not None
    assert f"{URL}/v1/chat/completions" in PAGE
    with serve(starter_model, "--ctx", "256", "--slots", "2") as served:
        url = f"{served.url}/v1/chat/completions"
        asked = {**json.loads(body[1]), "temperature": 0}  # the same answer on every run
        answers = [httpx.post(url, json=asked, timeout=60).json() for _ in range(2)]
        assert all(answer["choices"][0]["message"]["content"] for answer in answers)
        usage = answers[-1]["usage"]
        assert usage["prompt_tokens_details"]["cached_tokens"] == usage["prompt_tokens"] - 1
        greedy = program().replace("stream=True,", "stream=True, temperature=0,")
        ran = subprocess.run(
            [sys.executable, "-c", greedy.replace(URL, served.url)],
            capture_output=True,
            text=True,
            check=False,
        )
        assert (ran.returncode, ran.stderr) == (0, "")
        assert ran.stdout.strip()
