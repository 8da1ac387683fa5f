"""`edgekv pull`: get a model from a hub, if it fits this machine."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import click

from edgekv.tui.visible import visible


@click.command()
@click.argument("name")
@click.option("--anyway", is_flag=True, help="Also where it will not fit this machine's memory.")
def command(name: str, anyway: bool) -> None:
    """Get the model NAME and print its path.

    NAME is one of 'edgekv models', with a quantisation behind a colon if not the usual one
    (qwen3-4b:Q8_0), or hf:owner/repo, with a quantisation or a file behind a colon. A pull that
    was interrupted goes on where it stopped. HF_ENDPOINT names a mirror, HF_TOKEN your token.
    """
    print_path(get(name, anyway=anyway))


def print_path(path: Path) -> None:
    """For programs the very bytes that the system knows the file by, for people what they see."""
    is_terminal = sys.stdout is not None and sys.stdout.isatty()
    click.echo(visible(str(path)) if is_terminal else os.fsencode(path))


def get(name: str, *, anyway: bool = False) -> Path:
    """Pull what `name` means and return the file to open. Raises `EdgeKVError`."""
    from edgekv.cli.progress import ProgressLine
    from edgekv.service.getting import get_model

    with ProgressLine() as hear:
        return get_model(name, hear, say, anyway=anyway)


def say(sentence: str) -> None:
    click.echo(f"edgekv: {visible(sentence)}", err=True)
