"""The command line: one lazy module a command, and the one place that turns errors into exits.

Exit codes: 0 done, 1 could not, 2 wrong usage, 130 interrupted. stdout is data, stderr is talk.
"""

from __future__ import annotations

import importlib
import os
import sys

import click

from edgekv import __version__
from edgekv.errors import EdgeKVError

COMMANDS = {
    "chat": "Talk to a model in the terminal",
    "serve": "Serve a model over an OpenAI-style API",
    "plan": "Show what would be allocated here, line by line",
    "models": "Show which models fit this machine, and which are here",
    "pull": "Get a model from a hub",
    "advise": "Say from a trace what bounds this machine, and what would help",
    "bench": "Measure how fast this machine is, and what bounds it",
    "validate": "Test whether a KV type does this model harm",
    "worker": "Lend this machine to an EdgeKV on another",
    "config": "Show where the settings are, and what they say",
    "doctor": "Say what is wrong with this machine, and what mends it",
}
CHILDREN = {"comparison", "engine", "fetch", "grammar", "lend", "library", "render"}
"""Commands that EdgeKV runs as processes of its own; nobody types them."""


class LazyGroup(click.Group):
    """Imports `edgekv.cli.<command>` only when that command runs: start-up stays short."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS and cmd_name not in CHILDREN:
            return None
        command: click.Command = importlib.import_module(f"edgekv.cli.{cmd_name}").command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, message="edgekv %(version)s")
def app() -> None:
    """Run language models on this machine without running out of memory."""


def main() -> None:
    _use_utf8()
    sys.exit(run(sys.argv[1:]))


def _use_utf8() -> None:
    """Begin again in Python's UTF-8 mode where the locale knows fewer letters than file names do.

    Without it arguments and paths hold half characters, which no pipe and no answer can carry.
    """
    is_told = os.environ.get("PYTHONUTF8") == "1"
    if sys.platform != "win32" and sys.getfilesystemencoding() != "utf-8" and not is_told:
        os.execve(sys.executable, sys.orig_argv, os.environ | {"PYTHONUTF8": "1"})


def run(arguments: list[str]) -> int:
    """Run one command line; returns the exit code, after one sentence on stderr if it is not 0."""
    try:
        app.main(args=arguments, prog_name="edgekv", standalone_mode=False)
    except click.UsageError as error:
        where = error.ctx.command_path if error.ctx else "edgekv"
        return _fail(2, f"{error.format_message()} See '{where} --help'.")
    except click.ClickException as error:
        return _fail(1, error.format_message())
    except EdgeKVError as error:
        return _fail(1, str(error))
    except (click.Abort, KeyboardInterrupt):
        return 130
    return 0


def _fail(code: int, sentence: str) -> int:
    click.echo(f"edgekv: {sentence}", err=True)
    return code
