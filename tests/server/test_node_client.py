"""OpenAI's own client for Node against a real server.

It runs where Node and the client are installed, which `make check` sees to where there is npm.
In CI it has to run.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.conftest import REPOSITORY
from tests.server.served import serve

FOLDER = REPOSITORY / "tests" / "node"
NODE = shutil.which("node")
IS_INSTALLED = NODE is not None and (FOLDER / "node_modules" / "openai").is_dir()


@pytest.mark.llama
@pytest.mark.skipif(
    not IS_INSTALLED and not os.environ.get("CI"),
    reason="Node or its client is not installed; 'make node' does it where there is npm",
)
def test_the_client_for_node_gets_what_it_asks_for(starter_model: Path) -> None:
    assert NODE is not None, "CI needs Node"
    with serve(starter_model, "--ctx", "512", "--slots", "1", "--embeddings") as served:
        run = subprocess.run(
            [NODE, "smoke.mjs", f"{served.url}/v1"], cwd=FOLDER, capture_output=True, text=True
        )
    assert run.returncode == 0, run.stderr
    told = json.loads(run.stdout)
    assert told.pop("whole") == told.pop("streamed") == "STOP" * 6
    assert told == {
        "same_usage": True,
        "called": [{"name": "warmth", "arguments": '{"room": "hall"}'}],
        "response": True,
        "embeddings": [576, 576],
        "refusal": ["NotFoundError", 404, "model_not_found"],
        "models": [starter_model.stem],
    }
