"""A real server in a real control group, beside a program that takes its memory."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.server.served import Served, serve

pytestmark = pytest.mark.llama

MIB = 1024**2
LIMIT = 700 * MIB
TAKER = """
import sys
held = []
for line in sys.stdin:
    held.append(bytearray(int(line)))
    held[-1][::4096] = b"x" * len(held[-1][::4096])
    print(len(held), flush=True)
"""


class Group:
    """A control group whose members may have `LIMIT` bytes together."""

    def __init__(self, folder: Path, limit_file: str) -> None:
        self._folder = folder
        folder.mkdir()
        (folder / limit_file).write_text(str(LIMIT))
        self.through = ("sh", "-c", f'echo $$ > {folder}/cgroup.procs; exec "$@"', "sh")

    @property
    def num_kills(self) -> int:
        names = ("memory.events", "memory.oom_control")
        text = "".join(f.read_text() for n in names if (f := self._folder / n).exists())
        return sum(int(line.split()[1]) for line in text.splitlines() if "oom_kill " in line)

    def close(self) -> None:
        self._folder.rmdir()


@pytest.fixture
def group() -> Iterator[Group]:
    root, name = Path("/sys/fs/cgroup"), f"edgekv-test-{os.getpid()}"
    try:
        if (root / "memory").is_dir():
            group = Group(root / "memory" / name, "memory.limit_in_bytes")
        else:
            group = Group(root / name, "memory.max")
    except OSError as error:
        pytest.skip(f"no control group can be made here: {error.strerror}")
    yield group
    group.close()


@pytest.fixture
def taker(group: Group) -> Iterator[subprocess.Popen[str]]:
    """Takes as many bytes as each line of its input says, and answers when it has them."""
    command = [*group.through, sys.executable, "-c", TAKER]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        yield process
        process.kill()


def chat(served: Served, number: int) -> Any:
    body = {
        "model": "local",
        "messages": [{"role": "user", "content": f"Count from {number}."}],
        "max_tokens": 40,
        "ignore_eos": True,
    }
    return httpx.post(f"{served.url}/v1/chat/completions", json=body, timeout=300).json()


def told_until(served: Served, words: str) -> list[str]:
    """Its log lines up to the one with these words."""
    lines: list[str] = []
    for line in served.said:
        lines.append(line)
        if words in line:
            return lines
    raise AssertionError("".join(lines))


def test_nothing_is_killed_and_every_answer_comes(
    starter_model: Path, group: Group, taker: subprocess.Popen[str]
) -> None:
    options = ("--ctx", "2048", "--slots", "4", "--no-embeddings")
    with (
        serve(starter_model, *options, through=group.through) as served,
        ThreadPoolExecutor() as pool,
    ):
        answers = [pool.submit(chat, served, number) for number in range(3)]
        memory = httpx.get(f"{served.url}/plan", timeout=300).json()["memory"]
        assert memory["level"] == "calm"
        assert taker.stdin is not None
        assert taker.stdout is not None
        print(memory["rooms"][0]["spare_bytes"] + 10 * MIB, file=taker.stdin, flush=True)
        assert taker.stdout.readline()
        told_until(served, "the pool was reopened with")
        for done in answers:
            answer = done.result()
            assert answer["usage"]["completion_tokens"] == 40
            assert answer["choices"][0]["finish_reason"] == "length"
        metrics = httpx.get(f"{served.url}/metrics", timeout=300).text
        assert 'edgekv_memory_steps_total{step="smaller"} 1.0' in metrics
        assert "edgekv_engine_restarts_total 0.0" in metrics
        assert group.num_kills == 0
        served.end()
