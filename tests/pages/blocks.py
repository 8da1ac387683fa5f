"""The indented blocks of the documents, and which of their lines are commands.

A block runs in a test unless the line above it says why not:

    <!-- not run: needs the network -->

"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.conftest import MODELS, REPOSITORY

DOCUMENTS = [REPOSITORY / "README.md", MODELS / "README.md", *sorted(REPOSITORY.glob("docs/*.md"))]
REASONS = {
    "needs the network",
    "needs other hardware",
    "needs a bundle",
    "needs a terminal",
    "takes minutes",
    "a test of its own runs it",
}
PROGRAMS = {"edgekv", "make", "curl", "python", "python3", "export", "git", "tar", "xattr"}
ASIDE = re.compile(r"\s{3,}\S.*$")
"""A remark beside a command, where a column of them is set off by blanks."""


@dataclass(frozen=True, slots=True)
class Block:
    page: str
    line: int
    text: str
    not_run: str | None

    @property
    def name(self) -> str:
        return f"{self.page}:{self.line}"

    @property
    def commands(self) -> list[str]:
        """A line that ends with a backslash goes on with the next."""
        lines = re.sub(r"\\\n\s*", "", self.text).splitlines()
        return [ASIDE.sub("", line) for line in lines if is_command(line)]

    @property
    def is_for_make(self) -> bool:
        """`make` builds, or starts what other blocks show; its targets are checked to exist."""
        return all(command.startswith("make ") for command in self.commands)

    @property
    def output(self) -> list[str]:
        """What is shown below the commands, or all if there are none."""
        return [line for line in self.text.splitlines() if line.strip() and not is_command(line)]


def is_command(line: str) -> bool:
    """Whether a program is the first word, after variables that are set for it."""
    first = re.match(r"(?:[A-Z_]+=\S+ )*(?:\S*/)?([\w.]+)(?: |$)", line)
    return first is not None and first[1] in PROGRAMS


def blocks_of(path: Path) -> Iterator[Block]:
    lines = path.read_text(encoding="utf-8").splitlines()
    page, number = path.relative_to(REPOSITORY).as_posix(), 0
    while number < len(lines):
        if not lines[number].startswith("    ") or (number and lines[number - 1].strip()):
            number += 1
            continue
        end = number
        while end < len(lines) and (lines[end].startswith("    ") or not lines[end].strip()):
            end += 1
        text = "\n".join(line[4:] for line in lines[number:end]).rstrip()
        mark = re.fullmatch(r"<!-- not run: (.*) -->", lines[number - 2] if number > 1 else "")
        yield Block(page, number + 1, text, mark and mark[1])
        number = end


ALL = [block for path in DOCUMENTS for block in blocks_of(path)]
WITH_COMMANDS = [block for block in ALL if block.commands]


def edgekv_lines(text: str) -> list[list[str]]:
    """The words behind `edgekv` in every span of code that begins so."""
    spans = re.findall(r"`edgekv ([^`\n]+)`", text)
    return [shlex.split(span) for span in spans]


def words_of(command: str) -> list[list[str]]:
    """The words behind each `edgekv` of a line, up to what the shell takes for itself."""
    found = []
    for part in re.split(r"[|>]", command):
        words = shlex.split(part, comments=True)
        names = [i for i, word in enumerate(words) if word.split("/")[-1] == "edgekv"]
        found += [words[i + 1 :] for i in names[:1]]
    return found
