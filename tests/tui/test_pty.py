"""The real program with a real model in a real terminal, or without one."""

from __future__ import annotations

import os
import re
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import psutil
import pytest

from tests.tui.terminal import DEADLINE_SECONDS, open_terminal, set_up

if sys.platform == "win32":
    pytest.skip("pseudo-terminals are a Unix thing", allow_module_level=True)

pytestmark = pytest.mark.llama

OPEN = "Type a message"
READY = "KV used"
ANSWERING = "tok/s"
STORY = "Tell me a long story about a lighthouse.\r"
CTRL_C, CTRL_D, ESCAPE = "\x03", "\x04", "\x1b"


@pytest.fixture(autouse=True)
def own_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each test has a home of its own, and a model that says the same on every run."""
    set_up(tmp_path)
    monkeypatch.setenv("EDGEKV_HOME", str(tmp_path))


def test_a_paste_of_three_lines_waits_for_enter_and_quitting_leaves_no_trace(
    starter_model: Path, tmp_path: Path
) -> None:
    with open_terminal(starter_model, tmp_path) as terminal:
        terminal.expect(READY)
        engine = terminal.engine()
        terminal.paste("first line\nsecond line\nthird line")
        terminal.expect("third line")
        # While an answer is written, Ctrl+C would stop that instead.
        terminal.send(CTRL_C)
        assert terminal.wait() == 0
        terminal.check_left_as_found()
        assert not engine.is_running()


def test_escape_stops_a_running_answer(starter_model: Path, tmp_path: Path) -> None:
    with open_terminal(starter_model, tmp_path) as terminal:
        terminal.expect(OPEN)
        terminal.send(STORY)  # before the model is there
        terminal.expect(ANSWERING)
        terminal.send(ESCAPE)
        terminal.expect("stopped")
        terminal.send(CTRL_C)
        assert terminal.wait() == 0
        terminal.check_left_as_found()


def test_an_answer_goes_on_after_the_engine_was_killed(starter_model: Path, tmp_path: Path) -> None:
    with open_terminal(starter_model, tmp_path) as terminal:
        terminal.expect(READY)
        terminal.send(STORY)
        terminal.expect(ANSWERING)
        killed = terminal.engine()
        killed.kill()
        terminal.expect("loading")
        terminal.expect(READY)
        assert terminal.engine().pid != killed.pid
        terminal.send(ESCAPE)
        terminal.expect("stopped")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_it_and_the_terminal_is_as_it_was(
    starter_model: Path, tmp_path: Path, number: signal.Signals
) -> None:
    with open_terminal(starter_model, tmp_path) as terminal:
        terminal.expect(READY)
        engine = terminal.engine()
        terminal.send(STORY)
        terminal.expect(ANSWERING)
        os.kill(terminal.process.pid, number)
        assert terminal.wait() == 128 + number
        terminal.check_left_as_found()
        assert not engine.is_running()


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGHUP])
def test_what_there_was_of_an_answer_is_there_after_the_program_was_killed(
    starter_model: Path, tmp_path: Path, number: signal.Signals
) -> None:
    with open_terminal(starter_model, tmp_path) as terminal:
        terminal.expect(READY)
        terminal.send(STORY)
        terminal.expect(ANSWERING)
        (history,) = tmp_path.rglob("conversations.sqlite")
        kept = wait_for_pieces(history)
        os.kill(terminal.process.pid, number)
        terminal.process.wait(DEADLINE_SECONDS)
    with open_terminal(starter_model, tmp_path) as terminal:
        terminal.expect("broken off")
        assert kept.split()[0] in terminal.plain()
        terminal.expect("ended in the middle")
        terminal.send(CTRL_C)
        assert terminal.wait() == 0


def wait_for_pieces(history: Path) -> str:
    """What there is of the answer under way, once some of it is written."""
    end = time.monotonic() + DEADLINE_SECONDS
    while time.monotonic() < end:
        with closing(sqlite3.connect(history)) as connection:
            pieces = connection.execute("SELECT content FROM piece ORDER BY id").fetchall()
        text = b"".join(content for (content,) in pieces).decode()
        if text.strip():
            return text
    raise AssertionError("nothing of the answer was written")


def test_a_window_that_is_closed_takes_program_and_engine_with_it(
    starter_model: Path, tmp_path: Path
) -> None:
    with open_terminal(starter_model, tmp_path) as terminal:
        terminal.expect(OPEN)
        terminal.send(STORY)
        terminal.expect(ANSWERING)
        engine = terminal.engine()
        terminal.hang_up()
        assert terminal.process.wait(DEADLINE_SECONDS) == 128 + signal.SIGHUP
        psutil.wait_procs([engine], DEADLINE_SECONDS)
        assert not engine.is_running()


def test_no_color_means_no_colour_at_all(starter_model: Path, tmp_path: Path) -> None:
    with open_terminal(starter_model, tmp_path, NO_COLOR="1") as terminal:
        terminal.expect("weights")
        terminal.send(CTRL_C)
        assert terminal.wait() == 0
    colours = re.findall(rb"\x1b\[(?:\d+;)*(?:[34][0-8]|9[0-7]|10[0-7])(?:;\d+)*m", terminal.output)
    assert colours == []


def test_a_dumb_terminal_gets_a_prompt_and_not_one_control_sequence(
    starter_model: Path, tmp_path: Path
) -> None:
    with open_terminal(starter_model, tmp_path, TERM="dumb") as terminal:
        terminal.expect("> ")
        for _ in range(2):
            terminal.send(STORY)
            terminal.expect("lighthouse.\r\n")
            terminal.expect(" ")
            terminal.send(CTRL_C)  # stops the answer
            terminal.expect("\r\n> ")
        terminal.send(CTRL_D)
        assert terminal.wait() == 0
        assert b"\x1b" not in terminal.output


def chat(*arguments: str, asked: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "edgekv", "chat", *arguments],
        input=asked,
        capture_output=True,
        text=True,
        timeout=DEADLINE_SECONDS,
        check=False,
    )


def test_a_pipe_gets_the_answer_and_nothing_else(starter_model: Path, tmp_path: Path) -> None:
    # A model this small may run on to the end of the context, and then says so.
    question = "Which language is this?"
    done = chat(str(starter_model), "--ctx", "128", "-p", question, asked="print('hi')\n")
    assert done.returncode == 0
    assert done.stdout.strip()
    assert done.stdout.endswith("\n")
    assert "\x1b" not in done.stdout
    assert done.stderr == "" or "context length" in done.stderr


@pytest.mark.parametrize("names_model", [True, False])
def test_a_question_in_quotes_comes_before_what_is_in_the_pipe(
    starter_model: Path, names_model: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EDGEKV_MODELS", str(starter_model.parent))
    model = [str(starter_model)] if names_model else []
    done = chat(*model, "Write a commit message", "--ctx", "128", asked="+hello\n")
    assert (done.returncode, done.stderr.count("\n")) in {(0, 0), (0, 1)}
    assert done.stdout.strip()


def test_two_questions_are_wrong_usage(starter_model: Path, tmp_path: Path) -> None:
    done = chat(str(starter_model), "One thing", "-p", "another")
    assert done.returncode == 2
    assert done.stderr.startswith("edgekv: Ask one thing: in quotes, or with -p.")


@pytest.mark.parametrize("asked", ["", " \n\t\n"])
def test_an_empty_pipe_is_wrong_usage(starter_model: Path, asked: str) -> None:
    done = chat(str(starter_model), asked=asked)
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.startswith("edgekv: There is nothing to ask; give text on stdin or with -p.")
    assert done.stderr.count("\n") == 1


def story_in_a_pipe(model: Path) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-m", "edgekv", "chat", str(model), "-p", STORY],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def test_a_reader_that_leaves_early_hears_no_complaint(starter_model: Path, tmp_path: Path) -> None:
    with story_in_a_pipe(starter_model) as program:
        assert program.stdout is not None
        assert program.stderr is not None
        assert program.stdout.read(1)
        program.stdout.close()
        assert program.stderr.read() == b""
        assert program.wait(DEADLINE_SECONDS) == 1


def test_control_c_ends_line_mode_with_130_and_the_engine_with_it(
    starter_model: Path, tmp_path: Path
) -> None:
    with story_in_a_pipe(starter_model) as program:
        assert program.stdout is not None
        assert program.stderr is not None
        assert program.stdout.read(1)
        children = psutil.Process(program.pid).children()
        program.send_signal(signal.SIGINT)
        assert program.stderr.read().strip() == b""
        assert program.wait(DEADLINE_SECONDS) == 130
        assert not any(child.is_running() for child in children)
