"""`edgekv pull` as people run it, against a hub on loopback."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections import namedtuple
from collections.abc import Callable
from pathlib import Path

import pytest

from edgekv.cli.main import run
from edgekv.cli.progress import duration, progress_line
from edgekv.models.transfer import Progress
from tests.models.conftest import CONTENT, FILE
from tests.models.fake_hub import FakeHub

usage = namedtuple("usage", "total used free")


@pytest.fixture
def folder(hub: FakeHub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The models folder of commands that ask the test's hub."""
    monkeypatch.setenv("HF_ENDPOINT", hub.url)
    monkeypatch.setenv("EDGEKV_MODELS", str(tmp_path / "models"))
    return tmp_path / "models"


def size(file: Path) -> int:
    return file.stat().st_size


def wait_until(is_true: Callable[[], bool]) -> None:
    """A file of another process announces nothing, so it is looked at again and again."""
    pause, deadline = threading.Event(), time.monotonic() + 60
    while not is_true():
        assert time.monotonic() < deadline
        pause.wait(0.01)


def start_pull(*arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "edgekv", "pull", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_a_pull_prints_the_path_and_nothing_else_where_nobody_looks(
    folder: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert run(["pull", "--anyway", "hf:ok/tiny:Q4_K_M"]) == 0
    out, err = capfd.readouterr()
    assert out == f"{folder / 'ok' / 'tiny' / FILE}\n"
    assert err == "edgekv: tiny-Q4_K_M.gguf of ok/tiny, 500.0 KiB to come\n"


def test_a_hub_that_states_no_hash_is_said_to(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["pull", "--anyway", "hf:nosha/tiny"]) == 0
    assert "states no hash of it, so only its size can be checked" in capsys.readouterr().err


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_a_pull_that_is_killed_goes_on_where_it_stopped(
    hub: FakeHub, folder: Path, number: signal.Signals
) -> None:
    first = start_pull("--anyway", "hf:stop/tiny")
    try:
        wait_until(lambda: len(CONTENT) * 2 // 5 in map(size, folder.rglob("*.part")))
        first.send_signal(number)
        _, err = first.communicate(timeout=60)
    finally:
        first.kill()
        first.wait()
    assert first.returncode == (130 if number is signal.SIGINT else -number)
    assert "Traceback" not in err
    (there,) = map(size, folder.rglob("*.part"))
    hub.go_on.set()
    assert run(["pull", "--anyway", "hf:stop/tiny"]) == 0
    assert hub.ranges == [None, f"bytes={there}-"]
    assert (folder / "stop" / "tiny" / FILE).read_bytes() == CONTENT
    assert not list(folder.rglob("*.part"))


def test_a_model_too_large_for_the_memory_is_refused_after_its_header(
    hub: FakeHub,
    folder: Path,
    starter_model: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    class Huge(bytes):
        """A header whose file is a terabyte, which nobody asks for."""

        def __len__(self) -> int:
            return 10**12

    hub.files = {FILE: Huge(starter_model.read_bytes()[:10_000_000])}
    monkeypatch.setattr("shutil.disk_usage", lambda _: usage(0, 0, 2 * 10**12))
    assert run(["pull", "hf:ok/tiny"]) == 1
    err = capsys.readouterr().err
    assert "one conversation of 512 tokens needs 931" in err
    assert "'edgekv pull --anyway' gets it all the same" in err
    assert hub.sent_bytes < 5_000_000
    assert not folder.exists()


def test_a_model_larger_than_the_disk_is_refused_before_its_header(
    hub: FakeHub, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["pull", "hf:huge/tiny"]) == 1
    assert f"no space for it in {folder}: 9.1 TiB are needed" in capsys.readouterr().err
    assert hub.ranges == []


def test_a_catalogue_name_pulls_the_usual_file_of_its_repository(
    hub: FakeHub, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    name = "Qwen3-4B-Q4_K_M.gguf"
    hub.files = {name: CONTENT, "Qwen3-4B-Q8_0.gguf": CONTENT}
    assert run(["pull", "--anyway", "qwen3-4b"]) == 0
    assert capsys.readouterr().out == f"{folder / 'Qwen' / 'Qwen3-4B-GGUF' / name}\n"
    assert run(["pull", "--anyway", "qwen3-4b:q8_0"]) == 0
    assert capsys.readouterr().out.endswith("Qwen3-4B-Q8_0.gguf\n")
    assert run(["pull", "qwen3-4b:Q2_K"]) == 1
    assert "has no Q2_K; it has Q4_K_M, Q8_0" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("qwen3-4bb", "did you mean 'qwen3-4b'"),
        ("hf:missing/tiny", "has no repository or file missing/tiny"),
        ("hf:hotel/tiny", "something else than a listing"),
        ("hf:nonsense", "write hf:owner/repo"),
        ("hf:ok/tiny", "of ok/tiny cannot be used"),
    ],
)
def test_what_cannot_be_pulled_is_one_sentence(
    folder: Path, capsys: pytest.CaptureFixture[str], name: str, words: str
) -> None:
    assert run(["pull", name]) == 1
    out, err = capsys.readouterr()
    assert (out, len(err.splitlines())) == ("", 1)
    assert words in err


def test_a_home_that_is_no_folder_holds_no_token(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_TOKEN_PATH", "/dev/null/.cache/token")
    assert run(["pull", "--anyway", "hf:ok/tiny"]) == 0
    assert capsys.readouterr().out


def test_offline_nothing_is_asked_of_any_hub(hub: FakeHub, folder: Path) -> None:
    # The hub's library reads the variable when it is loaded, so a fresh process asks.
    done = subprocess.run(
        [sys.executable, "-m", "edgekv", "pull", "hf:ok/tiny"],
        env={**os.environ, "HF_HUB_OFFLINE": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert done.stderr == (
        "edgekv: HF_HUB_OFFLINE is set, so nothing is asked of any hub; unset it to pull.\n"
    )
    assert hub.requests == []


def test_a_progress_line_tells_speed_and_what_is_left() -> None:
    half = Progress(512 * 1024**2, 1024**3)
    assert progress_line(half, 256 * 1024**2, 64.0) == (
        "[############............]  50%  512.0 MiB of 1.0 GiB, 4.0 MiB/s, 2 min 8 s left"
    )
    assert progress_line(half, 0, 0.0).endswith("512.0 MiB of 1.0 GiB")
    checking = Progress(1, 2, is_checking=True)
    assert progress_line(checking, 0, 1.0).endswith("checking what is here")
    assert [duration(s) for s in (3, 185, 7800)] == ["3 s", "3 min 5 s", "2 h 10 min"]
