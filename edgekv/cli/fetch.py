"""`edgekv fetch`: the child process that gets a model for the models screen."""

from __future__ import annotations

import click


@click.command(hidden=True)
@click.argument("name")
def command(name: str) -> None:
    """Get the model NAME and tell on stdout how it goes, as JSON."""
    from edgekv.service.getting_child import main

    main(name)
