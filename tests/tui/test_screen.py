"""What a person sees: the real program and a real model, through terminals that draw.

One is in this process and always there. The other is tmux, where that is installed.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

if sys.platform == "win32":
    pytest.skip("pseudo-terminals are a Unix thing", allow_module_level=True)

from tests.tui.terminal import DEADLINE_SECONDS, Terminal, engine_of, open_terminal, set_up
from tests.tui.tmux import Tmux

pytestmark = pytest.mark.llama

STORY = "Tell me a long story about a lighthouse.\r"
CTRL_C, ESCAPE, F2, F4 = "\x03", "\x1b", "\x1bOQ", "\x1bOS"
SIXTEEN = {
    bright + name
    for bright in ("", "bright")
    for name in ("black", "red", "green", "brown", "yellow", "blue", "magenta", "cyan", "white")
} | {"default"}


@pytest.fixture(
    params=[
        "pyte",
        pytest.param(
            "tmux",
            marks=pytest.mark.skipif(
                shutil.which("tmux") is None,
                reason="tmux is not installed; 'sudo apt install tmux' lets this run in it, too",
            ),
        ),
    ]
)
def terminal(
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
    starter_model: Path,
    tmp_path: Path,
) -> Iterator[Terminal | Tmux]:
    """A window whose shell says for ever how large it was when it was opened, as some do."""
    set_up(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("LINES", "24")
    if request.param == "pyte":
        with open_terminal(starter_model, tmp_path) as terminal:
            yield terminal
    else:
        with Tmux(starter_model, tmp_path) as window:
            yield window


def test_a_whole_session_is_seen_as_it_should_be_in_any_size(terminal: Terminal | Tmux) -> None:
    terminal.shows("Type a message", "Ask anything.", "KV used")
    terminal.send(STORY)
    terminal.shows("lighthouse.", "tok/s")
    terminal.send(ESCAPE)
    terminal.shows("· stopped")
    terminal.send(F2)
    terminal.shows("─ cells ─", "= kept", "prompt tokens reused")
    terminal.send(F4)
    terminal.shows("─ what to plan for ─", "weights", "runtime")
    terminal.resize(9, 39)
    terminal.shows("window too small")
    terminal.resize(30, 100)
    terminal.shows("─ what to plan for ─", "weights", "runtime")
    terminal.send(ESCAPE)
    terminal.shows("lighthouse.", "· stopped", "Type a message")
    engine = engine_of(terminal.process.pid)
    terminal.send(CTRL_C)
    assert terminal.wait() == 0
    psutil.wait_procs([engine], DEADLINE_SECONDS)
    assert not engine.is_running()


def test_a_console_of_sixteen_colours_gets_no_others_and_its_own_keys_work(
    starter_model: Path, tmp_path: Path
) -> None:
    with open_terminal(starter_model, tmp_path, TERM="linux", COLORTERM="") as terminal:
        terminal.shows("KV used")
        terminal.send("\x1b[[B")  # what its F2 sends
        terminal.shows("─ cells ─", "free slots")
        cells = [cell for row in terminal.screen.buffer.values() for cell in row.values()]
        assert {cell.fg for cell in cells} | {cell.bg for cell in cells} <= SIXTEEN
        assert "blue" in {cell.fg for cell in cells}
        terminal.send(CTRL_C)
        assert terminal.wait() == 0


def test_nothing_that_is_typed_before_the_model_is_there_is_lost(
    starter_model: Path, tmp_path: Path
) -> None:
    with open_terminal(starter_model, tmp_path) as terminal:
        terminal.send("How high is")  # before there is a program, so the terminal shows it
        terminal.shows("How high is")
        terminal.send(" a lighthouse?\r")
        terminal.shows("▌ How high is a lighthouse?", "tok/s")
        terminal.send("And how old?")
        terminal.shows("│ And how old?")
