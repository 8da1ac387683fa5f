"""`edgekv render`: the child process that a chat template may take down with it."""

from __future__ import annotations

import click


@click.command(hidden=True)
def command() -> None:
    """Render templates from stdin to stdout until stdin ends."""
    from edgekv.service.template_child import main

    main()
