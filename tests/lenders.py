"""Workers on this machine, as `edgekv worker` starts them, for engines of this machine."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

import psutil

from edgekv.core.library import WITHOUT_RPC
from edgekv.service.own_command import own_command

MIB = 1024**2


@dataclass(frozen=True, slots=True)
class Lender:
    address: str
    process: subprocess.Popen[str]

    def kill(self) -> None:
        """At once and with its child, so that nobody starts it again."""
        children = psutil.Process(self.process.pid).children()
        self.process.kill()
        self.process.wait()
        for child in children:
            with suppress(psutil.NoSuchProcess):
                child.kill()
        psutil.wait_procs(children)


@contextmanager
def lender(num_bytes: int, *options: str) -> Iterator[Lender]:
    """One that answers, and that lends `num_bytes`."""
    command = [*own_command("worker"), "--port", "0", "--memory", str(num_bytes), *options]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        said = []
        for line in process.stderr:
            said.append(line)
            if line.startswith("edgekv: lending"):
                break
        assert WITHOUT_RPC not in "".join(said), "run 'make rpc' first"
        assert said, "the worker ended in silence"
        assert "lending" in said[-1], said
        try:
            yield Lender(said[-1].split()[-1], process)
        finally:
            process.terminate()
            process.stderr.read()
