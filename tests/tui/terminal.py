"""`edgekv chat` in a pseudo-terminal, and what it leaves behind."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import TracebackType

import psutil
import pyte

DEADLINE_SECONDS = 120.0
"""For anything: far more than a busy machine needs, and a hang still ends the test."""

LEFT_AS_FOUND = {1000: "l", 1002: "l", 1003: "l", 1004: "l", 1049: "l", 2004: "l", 25: "h", 7: "h"}
"""Private modes, and whether a terminal has them set or reset at a shell's prompt."""


class Terminal:
    """Runs until the `with` block ends. `output` is everything that was written to it, and
    `screen` what a person sees of it now.
    """

    def __init__(self, *arguments: str, env: dict[str, str], size: tuple[int, int] = (24, 80)):
        self._master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", *size, 0, 0))
        self._slave = slave
        self._settings = termios.tcgetattr(slave)
        self._seen = 0
        self.output = b""
        self.screen = pyte.Screen(columns=size[1], lines=size[0])
        self._drawing = pyte.ByteStream(self.screen)

        def take_terminal() -> None:
            fcntl.ioctl(slave, termios.TIOCSCTTY, 0)

        self.process = subprocess.Popen(
            [sys.executable, "-m", "edgekv", "chat", *arguments],
            stdin=slave,
            stdout=slave,
            stderr=slave,
            env={**os.environ, "TERM": "xterm-256color", **env},
            start_new_session=True,
            preexec_fn=take_terminal,
        )

    def __enter__(self) -> Terminal:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        self.hang_up()

    def hang_up(self) -> None:
        """Close the window."""
        for descriptor in (self._slave, self._master):
            if descriptor >= 0:
                os.close(descriptor)
        self._slave = self._master = -1

    def send(self, keys: str) -> None:
        os.write(self._master, keys.encode())

    def paste(self, text: str) -> None:
        self.send(f"\x1b[200~{text}\x1b[201~")

    def expect(self, words: str) -> None:
        """Wait for words that were not on the screen when something was last expected."""
        end = time.monotonic() + DEADLINE_SECONDS
        while (found := self.output.find(words.encode(), self._seen)) < 0:
            if time.monotonic() > end or not self._read(end):
                raise AssertionError(f"no {words!r} at the end of {self.plain()[-1000:]!r}")
        self._seen = found + len(words.encode())

    def text(self) -> str:
        """What is on the screen now."""
        return "\n".join(line.rstrip() for line in self.screen.display)

    def shows(self, *words: str) -> None:
        """Wait until all these words are on the screen together, each in one line."""
        self.until(lambda: all(one in self.text() for one in words))

    def until(self, holds: Callable[[], bool]) -> None:
        """Wait until something holds, looking again whenever the screen changed."""
        end = time.monotonic() + DEADLINE_SECONDS
        while not holds():
            if time.monotonic() > end or not self._read(end):
                raise AssertionError(f"it never came to be; the screen shows:\n{self.text()}")

    def resize(self, lines: int, columns: int) -> None:
        """As a window does it: the size first, then the news of it."""
        fcntl.ioctl(self._slave, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
        self.screen.resize(lines, columns)

    def plain(self) -> str:
        """The output without its control sequences."""
        text = re.sub(rb"\x1b(?:\][^\x07]*\x07|\[[0-?]*[ -/]*[@-~]|.)", b"", self.output)
        return text.decode(errors="replace")

    def wait(self) -> int:
        """Read until the program ends; returns its exit code."""
        end = time.monotonic() + DEADLINE_SECONDS
        while self.process.poll() is None and time.monotonic() < end:
            self._read(time.monotonic() + 0.05)
        while self._read(time.monotonic()):
            pass
        return self.process.wait(0)

    def engine(self) -> psutil.Process:
        return engine_of(self.process.pid)

    def check_left_as_found(self) -> None:
        modes: dict[int, str] = {}
        for numbers, state in re.findall(rb"\x1b\[\?([\d;]+)([hl])", self.output):
            modes.update({int(number): state.decode() for number in numbers.split(b";")})
        changed = {n: s for n, s in modes.items() if s != LEFT_AS_FOUND.get(n, s)}
        assert changed == {}
        assert termios.tcgetattr(self._slave) == self._settings

    def _read(self, end: float) -> bool:
        """Whether there was something to read before `end`."""
        ready, _, _ = select.select([self._master], [], [], max(0.0, end - time.monotonic()))
        if ready:
            written = os.read(self._master, 65536)
            self.output += written
            self._drawing.feed(written)
        return bool(ready)


def open_terminal(
    model: Path, home: Path, size: tuple[int, int] = (24, 80), **env: str
) -> Terminal:
    """A chat that keeps everything in `home`, and always says the same to the same."""
    set_up(home)
    env["EDGEKV_HOME"] = str(home)
    return Terminal(str(model), "--ctx", "2048", env=env, size=size)


def set_up(home: Path) -> None:
    """Settings by which the model always says the same to the same."""
    settings = home / "config" / "config.toml"
    settings.parent.mkdir(exist_ok=True)
    settings.write_text("[sampling]\ntemperature = 0\n")


def engine_of(pid: int) -> psutil.Process:
    """The engine's process of the chat with that process id."""
    for child in psutil.Process(pid).children():
        with suppress(psutil.NoSuchProcess):  # it has ended since
            if child.cmdline()[-1:] == ["engine"]:
                return child
    raise AssertionError("there is no engine process")
