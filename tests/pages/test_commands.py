"""Every command that the documents show runs as it stands there, or says why it cannot."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import click
import httpx
import pytest

from edgekv.cli.main import app
from edgekv.config.settings_file import parse_settings
from tests.conftest import REPOSITORY
from tests.pages.blocks import ALL, DOCUMENTS, REASONS, WITH_COMMANDS, Block, edgekv_lines, words_of
from tests.server.served import Served, serve
from tests.tiny_models import gemma3, write

SERVER = "http://127.0.0.1:8642"
TO_RUN = [b for b in WITH_COMMANDS if b.not_run is None and not b.is_for_make]
STARTS_A_SERVER = re.compile(r"edgekv serve")
"""There is one already, so such a line is not run again."""
NOT_RUN = [block for block in ALL if block.not_run is not None]


def of(*endings: str) -> list[Block]:
    return [block for block in ALL if block.page.endswith(endings)]


def test_there_is_a_reason_for_each_block_that_is_not_run() -> None:
    assert {block.not_run for block in NOT_RUN} <= REASONS
    assert [block.name for block in NOT_RUN if not block.commands] == [], "nothing to run anyway"
    assert len(TO_RUN) >= len(NOT_RUN)
    marks = sum(path.read_text(encoding="utf-8").count("<!-- not run:") for path in DOCUMENTS)
    assert marks == len(NOT_RUN), "a mark stands two lines above its block"


@pytest.mark.parametrize("block", WITH_COMMANDS, ids=lambda block: block.name)
def test_every_option_of_a_shown_command_exists(block: Block) -> None:
    for command in block.commands:
        for words in words_of(command):
            parse(words)


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_every_option_that_a_sentence_names_exists(path: Path) -> None:
    for words in edgekv_lines(path.read_text(encoding="utf-8")):
        parse(words)


def parse(words: list[str]) -> None:
    """Take a command line apart as click does, without running it or looking for its files."""
    group: click.Command = app
    context = click.Context(app, resilient_parsing=True)
    words = [word for word in words if word not in {"…", "|"}]
    while isinstance(group, click.Group) and words and not words[0].startswith("-"):
        name, *words = words
        command = group.get_command(context, name)
        assert command is not None, name
        group, context = command, click.Context(command, context, name, resilient_parsing=True)
    known = {option for one in group.params for option in [*one.opts, *one.secondary_opts]}
    known |= {"--help", "-h"}
    named = {word.split("=")[0] for word in words if re.match(r"--?[a-z]", word)}
    assert named <= known, f"edgekv {context.info_name} has no {named - known}"


@dataclass(frozen=True, slots=True)
class Desk:
    """A folder to work in, the commands on the path, and a server that has the starter model."""

    folder: Path
    environment: dict[str, str]
    server: Served

    def run(self, script: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["bash", "-euo", "pipefail", "-c", script],
            cwd=self.folder,
            env=self.environment | {"SERVER": self.server.url},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )


@pytest.fixture(scope="module")
def desk(starter_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desk]:
    folder = tmp_path_factory.mktemp("desk")
    (folder / "models").mkdir()
    (folder / "models" / starter_model.name).symlink_to(starter_model)
    write(folder / "new.gguf", gemma3())
    write(folder / "models/old.gguf", gemma3())
    program = folder / "bin/edgekv"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m edgekv "$@"\n')
    program.chmod(0o700)
    environment = os.environ | {
        "EDGEKV_HOME": str(folder / "home"),
        "EDGEKV_MODEL": str(starter_model),
        "EDGEKV_MODELS": str(folder / "models"),
        "PATH": f"{program.parent}:{os.environ['PATH']}",
        "EDGEKV_CTX": "96",  # an answer ends there at the latest
        "EDGEKV_SLOTS": "2",
    }
    (folder / "box.json").write_text(next(b.text for b in of("memory.md") if '"cores"' in b.text))
    subprocess.run(["git", "init", "-q", str(folder)], check=True)
    trace = str(folder / "trace.jsonl")
    with serve(starter_model, "--ctx", "128", "--slots", "2", "--record", trace) as server:
        ask(server)
        yield Desk(folder, environment, server)


def ask(server: Served) -> None:
    body = {"prompt": "One river is the", "max_tokens": 2}
    assert httpx.post(f"{server.url}/v1/completions", json=body, timeout=60).status_code == 200


STANDS_FOR = {
    r"(?<= )MODEL\b": '"$EDGEKV_MODEL"',
    r"(?<= )FILE\b": "new.gguf",
    r"(?<= )NAME\b": "old",
    r"^(edgekv models rm)": r"echo y | \1",
    SERVER: "$SERVER",
    r"\bcurl ": "curl --silent --show-error --fail ",
    # 1 is the answer of a doctor who found a fault of this machine.
    r"^(edgekv doctor.*)": r"\1 || test $? = 1",
}
"""What a user puts in, and what keeps a test short and strict."""


def runnable(block: Block) -> str:
    """The block's commands as a script."""
    script = "\n".join(line for line in block.commands if not STARTS_A_SERVER.match(line))
    for shown, meant in STANDS_FOR.items():
        script = re.sub(shown, meant, script, flags=re.MULTILINE)
    return script


@pytest.mark.parametrize(
    "block", [block for block in TO_RUN if runnable(block)], ids=lambda block: block.name
)
def test_a_shown_command_works(block: Block, desk: Desk) -> None:
    done = desk.run(runnable(block))
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr


def test_the_first_words_of_a_server_are_those_of_the_page(desk: Desk) -> None:
    (shown,) = [
        line for b in of("first-steps.md") for line in b.output if "edgekv: serving" in line
    ]
    start, end = map(masked, shown.split("…"))
    assert masked(desk.server.ready).startswith(start)
    assert masked(desk.server.ready).endswith(end)


def test_bench_prints_what_its_page_shows(desk: Desk) -> None:
    (shown,) = [block for block in of("docs/bench.md") if "at once" in block.text]
    done = desk.run('edgekv bench --seconds 1 --slots 1 "$EDGEKV_MODEL"')
    assert done.returncode == 0, done.stderr
    got = {masked(line) for line in done.stdout.splitlines()}
    *lines, _ = [line for line in shown.output if "threads" not in line and "llama," not in line]
    assert {masked(line) for line in lines} <= got


def masked(line: str) -> str:
    """Without what differs from one machine to the next: numbers, bars, blanks."""
    line = re.sub(r"#+", "", line)
    line = re.sub(r"\d[\d.,]*", "N", line.replace("127.0.0.1", ""))
    return " ".join(line.split())


def test_a_line_of_a_trace_has_the_fields_that_its_page_shows(desk: Desk) -> None:
    (shown,) = [block for block in of("traffic.md") if "hash_ids" in block.text]
    desk.run(f'curl -s {desk.server.url}/v1/completions -d \'{{"prompt": "Hi", "max_tokens": 2}}\'')
    lines = (desk.folder / "trace.jsonl").read_text(encoding="utf-8").splitlines()
    assert re.findall(r'"(\w+)":', lines[-1]) == re.findall(r'"(\w+)":', shown.text)


def test_the_settings_that_pages_show_can_be_followed() -> None:
    shown = [b for b in of("configuration.md", "screens.md") if "[keys]" in b.text]
    assert len(shown) == 2
    for block in shown:
        assert parse_settings(block.text, REPOSITORY / block.page) is not None
