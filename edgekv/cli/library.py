"""`edgekv library`: the child process that tells what llama.cpp is here."""

from __future__ import annotations

import click


@click.command(hidden=True)
def command() -> None:
    """Print what the library is, as JSON."""
    from edgekv.llama.description import main

    main()
