"""`edgekv chat` in a window of tmux, the terminal that many run it in."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType

import psutil

from tests.tui.terminal import DEADLINE_SECONDS

SECONDS_BETWEEN_LOOKS = 0.1
"""tmux tells nobody that a screen changed."""


class Tmux:
    """Runs until the `with` block ends, on a tmux server of its own without anybody's settings."""

    def __init__(self, model: Path, home: Path, size: tuple[int, int] = (24, 80)) -> None:
        """`home` is as for `open_terminal`."""
        self._socket = home / "tmux"
        chat = [sys.executable, "-m", "edgekv", "chat", str(model), "--ctx", "2048"]
        self._tmux(
            *("new-session", "-d", "-x", str(size[1]), "-y", str(size[0]), *chat),
            *(";", "set-option", "-g", "remain-on-exit", "on"),
            env={**os.environ, "EDGEKV_HOME": str(home)},
        )
        self.process = psutil.Process(int(self._told("#{pane_pid}")))

    def __enter__(self) -> Tmux:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._tmux("kill-server")

    def send(self, keys: str) -> None:
        self._tmux("send-keys", "-H", *(f"{byte:x}" for byte in keys.encode()))

    def text(self) -> str:
        """What is on the screen now."""
        return self._tmux("capture-pane", "-p")

    def shows(self, *words: str) -> None:
        """Wait until all these words are on the screen together, each in one line."""

        def holds() -> bool:
            text = self.text()
            return all(one in text for one in words)

        self._until(holds)

    def resize(self, lines: int, columns: int) -> None:
        self._tmux("resize-window", "-x", str(columns), "-y", str(lines))

    def wait(self) -> int:
        """Wait until the program ends by itself; returns its exit code.

        tmux calls a pane dead once its terminal is closed, and learns the exit code a moment later:
        from a SIGCHLD, which it loses when the program ends while it writes utmp. So it gets more.
        """
        server = psutil.Process(int(self._told("#{pid}")))

        def has_code() -> bool:
            server.send_signal(signal.SIGCHLD)
            return self._told("#{pane_dead_status}") != ""

        self._until(has_code)
        return int(self._told("#{pane_dead_status}"))

    def _until(self, holds: Callable[[], bool]) -> None:
        pause, end = threading.Event(), time.monotonic() + DEADLINE_SECONDS
        while not holds():
            if time.monotonic() > end:
                raise AssertionError(f"it never came to be; the screen shows:\n{self.text()}")
            pause.wait(SECONDS_BETWEEN_LOOKS)

    def _told(self, form: str) -> str:
        return self._tmux("display-message", "-p", form).strip()

    def _tmux(self, *arguments: str, env: dict[str, str] | None = None) -> str:
        command = ["tmux", "-S", str(self._socket), "-f", os.devnull, *arguments]
        return subprocess.run(command, check=True, capture_output=True, text=True, env=env).stdout
