"""Start `edgekv serve` for a measurement, or use the server at a URL."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

SECONDS_TO_START = 120.0


@dataclass(frozen=True, slots=True)
class Server:
    url: str
    """The base of the OpenAI-style routes, ending in /v1."""
    pid: int | None = None

    def metrics(self) -> dict[str, float]:
        """EdgeKV's counters by name and labels; empty for another server."""
        try:
            with urllib.request.urlopen(self.url.removesuffix("/v1") + "/metrics") as page:
                lines = page.read().decode().splitlines()
        except urllib.error.HTTPError:
            return {}
        samples = (line.rsplit(" ", 1) for line in lines if line and not line.startswith("#"))
        return {name: float(value) for name, value in samples}


@contextlib.contextmanager
def edgekv(model: str, *options: str, home: Path | None = None) -> Iterator[Server]:
    """A server of its own on a free port, with its usual options, ended with the block.

    It writes to `home`, where the next one finds it. Without a home it has an empty one that goes
    with it, so that no measurement finds what an earlier one computed.
    """
    if home is None:
        with tempfile.TemporaryDirectory(prefix="edgekv-bench-") as folder:
            with edgekv(model, *options, home=Path(folder)) as server:
                yield server
            return
    port = _free_port()
    command = [sys.executable, "-m", "edgekv", "serve", model, "--port", str(port), *options]
    process = subprocess.Popen(
        command,
        env=os.environ | {"EDGEKV_HOME": str(home)},
        stderr=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
    )
    try:
        _wait_until_ready(process, port)
        yield Server(f"http://127.0.0.1:{port}/v1", process.pid)
    finally:
        process.send_signal(signal.SIGINT)
        process.wait()


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port: int = probe.getsockname()[1]
    return port


def _wait_until_ready(process: subprocess.Popen[bytes], port: int) -> None:
    deadline = time.monotonic() + SECONDS_TO_START
    while time.monotonic() < deadline and process.poll() is None:
        with contextlib.suppress(OSError):
            urllib.request.urlopen(f"http://127.0.0.1:{port}/health")
            return
        time.sleep(0.1)
    raise SystemExit("edgekv serve did not get ready; run the same command by hand to see why")


def kill(server: Server) -> None:
    """Kill a server and its engine without a word."""
    kill_engine(server)
    assert server.pid is not None, "only a server of our own can be killed"
    os.kill(server.pid, signal.SIGKILL)


def kill_engine(server: Server) -> None:
    """Kill the engine process of a server without a word."""
    listing = subprocess.run(
        ["ps", "--ppid", str(server.pid), "-o", "pid=,args="], capture_output=True, text=True
    )
    for line in listing.stdout.splitlines():
        pid, _, arguments = line.strip().partition(" ")
        if arguments.endswith("edgekv engine"):
            os.kill(int(pid), signal.SIGKILL)
