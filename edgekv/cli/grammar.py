"""`edgekv grammar`: the child process that a schema may take down with it."""

from __future__ import annotations

import click


@click.command(hidden=True)
def command() -> None:
    """Compile the grammar on stdin and tell on stdout what that cost."""
    from edgekv.llama.grammar_trial import main

    main()
