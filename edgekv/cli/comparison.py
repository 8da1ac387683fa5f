"""`edgekv comparison`: the child process behind validate."""

from __future__ import annotations

import click


@click.command(hidden=True)
def command() -> None:
    """Speak frames over stdin and stdout until stdin ends."""
    from edgekv.service.child import compare

    compare()
