"""`edgekv serve` as users start it: a process of its own with a real model."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import psutil

SECONDS_TO_END = 60


class Served:
    def __init__(self, process: subprocess.Popen[str], url: str) -> None:
        self.process, self.url = process, url

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
        try:
            assert process.stderr is not None
            said = []
            for line in process.stderr:
                said.append(line)
                if ready := re.search(r"^edgekv: serving .* at (http://\S+)/v1$", line):
                    break
            assert ready, "".join(said)
            served = Served(process, ready[1])
            yield served
        finally:
            if process.poll() is None:
                served.end() if ready else process.kill()
