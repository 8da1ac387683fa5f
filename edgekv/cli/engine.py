"""`edgekv engine`: the child process behind chat, serve and plan."""

from __future__ import annotations

import click


@click.command(hidden=True)
@click.argument("workers", nargs=-1)
def command(workers: tuple[str, ...]) -> None:
    """Speak frames over stdin and stdout until stdin ends. WORKERS are HOST:PORT."""
    from edgekv.service.engine_child import main

    main(workers)
