"""`edgekv engine`: the child process behind chat, serve and plan."""

from __future__ import annotations

import click


@click.command(hidden=True)
def command() -> None:
    """Speak frames over stdin and stdout until stdin ends."""
    from edgekv.service.child import main

    main()
