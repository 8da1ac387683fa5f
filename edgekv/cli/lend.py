"""`edgekv lend`: the child process behind worker, which a client's mistake may take down."""

from __future__ import annotations

import click


@click.command(hidden=True)
@click.option("--host", required=True)
@click.option("--port", type=int, required=True)
@click.option("--threads", type=int, required=True)
@click.argument("limits", nargs=-1, required=True)
def command(host: str, port: int, threads: int, limits: tuple[str, ...]) -> None:
    """Lend devices until stdin ends. LIMITS are NAME=BYTES."""
    from edgekv.service.lending_child import main

    pairs = (limit.rpartition("=") for limit in limits)
    main(host, port, threads, {name: int(number) for name, _, number in pairs})
