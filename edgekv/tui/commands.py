"""Slash commands: which there are, how one is typed, and how it may go on."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from edgekv.config.spelling import nearest
from edgekv.errors import InvalidValue

Arguments: TypeAlias = Callable[[str, str], Sequence[str]]
"""What may follow the command of that name, where so much of it is typed."""

_COMMAND = re.compile(r"/(?P<name>[a-z]*)(?:[ \t]+(?P<argument>.*))?", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Command:
    name: str
    argument: str
    """What follows it, in brackets if it may be left out; nothing if nothing follows."""
    purpose: str

    @property
    def needs_argument(self) -> bool:
        return bool(self.argument) and not self.argument.startswith("[")


COMMANDS = (
    Command("again", "", "Have the last question answered once more"),
    Command("attach", "FILE", "Send a text file with the next message"),
    Command("bench", "", "Measure how fast this model reads and writes here"),
    Command("copy", "[N]", "Copy the last answer, or its Nth piece of code"),
    Command("ctx", "[TOKENS|auto]", "Show or change how many tokens one conversation may hold"),
    Command("delete", "", "Delete this conversation"),
    Command("detach", "", "Send no files with the next message after all"),
    Command("drop", "[N]", "Go on without the oldest N turns, or without the oldest half"),
    Command("edit", "", "Ask the last question in other words"),
    Command("export", "[FILE]", "Write this conversation to a .md or .json file"),
    Command("fork", "", "Go on from here in a new conversation"),
    Command("help", "", "List all commands"),
    Command("import", "FILE", "Read conversations of EdgeKV, ChatGPT or Open WebUI"),
    Command("kv", "[TYPE]", "Show or change the precision of keys and values"),
    Command("list", "", "Show or hide the list of conversations"),
    Command("memory", "", "Show the memory plan"),
    Command("model", "[NAME]", "Show the model, or go on with another one"),
    Command("new", "", "Begin a new conversation"),
    Command("quit", "", "Leave EdgeKV"),
    Command("rename", "NAME", "Give this conversation another name"),
    Command("save", "[NAME]", "Say where this conversation is saved, and name it"),
    Command("summary", "", "Go on in a new conversation that begins with a summary"),
    Command("system", "[TEXT|clear]", "Show or change what the model is told before all else"),
    Command("undo", "", "Bring back the conversation that was deleted last"),
    Command("why", "", "Say why the last prompt was computed, and not reused"),
)
BY_NAME = {command.name: command for command in COMMANDS}


@dataclass(frozen=True, slots=True)
class Typed:
    command: Command
    argument: str


@dataclass(frozen=True, slots=True)
class Candidate:
    """A way to go on with what is typed."""

    text: str
    """The whole text then."""
    hint: str


def is_command(text: str) -> bool:
    """Paths and comments begin with a slash, too, but are no commands."""
    return _COMMAND.fullmatch(text) is not None


def parse(text: str) -> Typed:
    """Raises `InvalidValue` for a command that there is not, or that lacks its argument."""
    match = _COMMAND.fullmatch(text)
    assert match is not None, "only for what is_command says yes to"
    name, argument = match["name"], (match["argument"] or "").strip()
    command = BY_NAME.get(name)
    if command is None:
        raise InvalidValue("message", f"There is no command '/{name}'; {_nearest(name)}")
    if command.needs_argument and not argument:
        raise InvalidValue("message", f"'/{name}' needs more: /{name} {command.argument}")
    if argument and not command.argument:
        raise InvalidValue("message", f"'/{name}' takes nothing after it.")
    return Typed(command, argument)


def candidates(text: str, arguments: Arguments) -> tuple[Candidate, ...]:
    """How a command that is being typed may go on."""
    match = _COMMAND.fullmatch(text)
    if match is None or "\n" in text:
        return ()
    name, argument = match["name"], match["argument"]
    if argument is None and not text.endswith((" ", "\t")):
        return tuple(
            Candidate(f"/{command.name}{' ' * bool(command.argument)}", _hint(command))
            for command in COMMANDS
            if command.name.startswith(name)
        )
    argument = argument or ""
    wanted = argument.casefold()
    return tuple(
        Candidate(f"/{name} {value}", "")
        for value in arguments(name, argument)
        if wanted in value.casefold() and value != argument
    )


def _hint(command: Command) -> str:
    return f"{command.argument}  {command.purpose}" if command.argument else command.purpose


def _nearest(name: str) -> str:
    hint = nearest(name, BY_NAME)
    return hint.replace("'", "'/", 1) if hint.startswith("did") else "/help lists all."
