"""Start a server for a measurement and end it again, or use the one at a URL."""

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
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil

SECONDS_TO_START = 120.0
SECONDS_TO_END = 60.0


@dataclass(frozen=True, slots=True)
class Server:
    url: str
    """The base of the OpenAI-style routes, ending in /v1."""
    pid: int | None = None

    @property
    def root(self) -> str:
        return self.url.removesuffix("/v1")

    def metrics(self) -> dict[str, float]:
        """EdgeKV's counters by name and labels; empty for another server."""
        try:
            with urllib.request.urlopen(self.root + "/metrics") as page:
                lines = page.read().decode().splitlines()
        except urllib.error.HTTPError:
            return {}
        samples = (line.rsplit(" ", 1) for line in lines if line and not line.startswith("#"))
        return {name: float(value) for name, value in samples}

    def processes(self) -> list[psutil.Process]:
        """The server's own process and all that it started."""
        own = psutil.Process(self.pid)
        return [own, *own.children(recursive=True)]

    def engine(self) -> psutil.Process | None:
        """EdgeKV's engine process, unless it has just died."""
        for child in self.processes()[1:]:
            with contextlib.suppress(psutil.NoSuchProcess):
                if child.cmdline()[-1:] == ["engine"]:
                    return child
        return None


@contextlib.contextmanager
def edgekv(model: str, *options: str, home: Path | None = None) -> Iterator[Server]:
    """A server of its own on a free port, with its usual options, ended with the block.

    It writes to `home`, where the next one finds it. Without a home it has an empty one that goes
    with it, so that no measurement finds what an earlier one computed.
    """
    command = [sys.executable, "-m", "edgekv", "serve", model, *options]
    with contextlib.ExitStack() as stack:
        if home is None:
            folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="edgekv-bench-"))
            home = Path(folder)
        port = free_port()
        environment = {"EDGEKV_HOME": str(home)} | _own_folders(home)
        yield stack.enter_context(
            started([*command, "--port", str(port)], port, home / "serve.log", environment)
        )


def _own_folders(home: Path) -> dict[str, str]:
    """Temporary files and the runtime file in the home too, so that what is left there is seen."""
    folders = {"TMPDIR": home / "tmp", "XDG_RUNTIME_DIR": home / "run"}
    for folder in folders.values():
        folder.mkdir(mode=0o700, exist_ok=True)
    return {name: str(folder) for name, folder in folders.items()}


@contextlib.contextmanager
def started(
    command: Sequence[str], port: int, log: Path, environment: dict[str, str] | None = None
) -> Iterator[Server]:
    """Any server that answers `/health` or `/v1/models` at a port of this machine once it is ready.

    Raises `SystemExit` with the end of its log if it does not get ready.
    """
    with log.open("wb") as said:
        process = subprocess.Popen(
            command, env=os.environ | (environment or {}), stderr=said, stdout=said
        )
    try:
        if not _gets_ready(process, port):
            last = "\n".join(log.read_text(errors="replace").splitlines()[-5:])
            raise SystemExit(f"{command[0]} did not get ready; its last words:\n{last}")
        yield Server(f"http://127.0.0.1:{port}/v1", process.pid)
    finally:
        end(process)


def end(process: subprocess.Popen[bytes]) -> int:
    """Ask a server to end, and make it end if it does not; its exit code."""
    if process.poll() is None:
        process.send_signal(signal.SIGINT)
    try:
        return process.wait(SECONDS_TO_END)
    except subprocess.TimeoutExpired:
        process.kill()
        return process.wait()


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port: int = probe.getsockname()[1]
    return port


def _gets_ready(process: subprocess.Popen[bytes], port: int) -> bool:
    deadline = time.monotonic() + SECONDS_TO_START
    while time.monotonic() < deadline and process.poll() is None:
        if _is_ready(f"http://127.0.0.1:{port}"):
            return True
        time.sleep(0.1)
    return False


def _is_ready(root: str) -> bool:
    """By `/health`, or by `/v1/models` where there is no such thing."""
    try:
        urllib.request.urlopen(root + "/health")
    except urllib.error.HTTPError as error:
        if error.code != 404:
            return False
        with contextlib.suppress(OSError):
            urllib.request.urlopen(root + "/v1/models")
            return True
        return False
    except OSError:
        return False
    return True


def kill(server: Server) -> None:
    """Kill a server and its engine without a word."""
    kill_engine(server)
    assert server.pid is not None, "only a server of our own can be killed"
    os.kill(server.pid, signal.SIGKILL)


def kill_engine(server: Server) -> None:
    """Kill the engine process of a server without a word, if it has one now."""
    if (engine := server.engine()) is not None:
        with contextlib.suppress(psutil.NoSuchProcess):
            engine.kill()
