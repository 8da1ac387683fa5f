"""`edgekv serve` as users start it: a process of its own with a real model."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from queue import SimpleQueue
from threading import Thread
from typing import IO

import psutil

SECONDS_TO_END = 60


class Said:
    """What a process writes. A thread reads it, for a full pipe would stop the process."""

    def __init__(self, stream: IO[str]) -> None:
        self._lines: SimpleQueue[str | None] = SimpleQueue()
        self._reading = Thread(target=self._read, args=(stream,))
        self._reading.start()

    def __iter__(self) -> Iterator[str]:
        """Every line once, as it comes, until the process has ended."""
        while (line := self._lines.get()) is not None:
            yield line
        self._lines.put(None)

    def close(self) -> None:
        """Once the process has ended."""
        self._reading.join()

    def _read(self, stream: IO[str]) -> None:
        for line in stream:
            self._lines.put(line)
        self._lines.put(None)


class Served:
    """`ready` is the line that said so; `said` has what the server wrote since."""

    def __init__(self, process: subprocess.Popen[str], ready: re.Match[str], said: Said) -> None:
        self.process, self.said = process, said
        self.ready, self.url = ready[0], ready[1]

    def end(self, number: signal.Signals = signal.SIGTERM) -> int:
        """The exit code, once no process of the server is left."""
        children = psutil.Process(self.process.pid).children(recursive=True)
        self.process.send_signal(number)
        code = self.process.wait(SECONDS_TO_END)
        _, alive = psutil.wait_procs(children, SECONDS_TO_END)
        assert alive == []
        return code


@contextmanager
def serve(model: Path, *options: str, through: Sequence[str] = ()) -> Iterator[Served]:
    """A server that is ready on a free port; it ends with the block unless it has already.

    `through` is a command that becomes the one that is put behind it.
    """
    command = [*through, sys.executable, "-m", "edgekv"]
    command += ["serve", str(model), "--port", "0", *options]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        said, before = Said(process.stderr), []
        try:
            for line in said:
                before.append(line)
                if ready := re.search(r"^edgekv: serving .* at (http://\S+)/v1$", line):
                    break
            assert ready, "".join(before)
            served = Served(process, ready, said)
            yield served
        finally:
            if process.poll() is None:
                served.end() if ready else process.kill()
            said.close()
