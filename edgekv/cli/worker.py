"""`edgekv worker`: lends this machine's memory and processor to an EdgeKV on another."""

from __future__ import annotations

import asyncio
import ipaddress
import signal
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from edgekv.budget.kv_types import AUTO
from edgekv.budget.sizes import Reserve, format_size
from edgekv.budget.wish import Wish
from edgekv.budget.worker_addresses import PORT
from edgekv.cli.options import count, reserve, size

if TYPE_CHECKING:
    from edgekv.budget.lending import Loan

WARNING = (
    "anybody who reaches {host} can use this machine's memory and read what is in it: the protocol "
    "knows no passwords and encrypts nothing. Keep it to a network that you trust"
)


def address(_ctx: click.Context, _param: click.Parameter, text: str) -> str:
    """One of this machine's own IPv4 addresses. All of them at once is more than anybody means."""
    try:
        if not ipaddress.IPv4Address(text).is_unspecified:
            return text
    except ValueError:
        pass
    raise click.BadParameter(
        f"'{text}' is not one IPv4 address of this machine; name the one that the other machine "
        "reaches, like 10.0.0.5."
    )


@click.command()
@click.option(
    "--memory", default=AUTO, callback=size, metavar="SIZE", help="What to lend, like 4GiB."
)
@click.option(
    "--reserve",
    "kept",
    default=AUTO,
    callback=reserve,
    metavar="SIZE|PART%",
    help="Left to the rest of the system.",
)
@click.option(
    "--threads", default=AUTO, callback=count(1), metavar="N", help="CPU threads that compute."
)
@click.option(
    "--host",
    default="127.0.0.1",
    show_default=True,
    callback=address,
    help="The address of this machine to listen on.",
)
@click.option(
    "--port",
    default=PORT,
    show_default=True,
    type=click.IntRange(0, 65535),
    help="0 takes any free port.",
)
def command(
    memory: int | None, kept: Reserve | None, threads: int | None, host: str, port: int
) -> None:
    """Lend this machine to an EdgeKV on another, until interrupted.

    That one names it with --workers and lays layers of its model here. One at a time can.
    """
    from edgekv.server.run import listen
    from edgekv.service.lending import Lender

    with listen(host, port) as listener:
        port = listener.getsockname()[1]
    offered, num_threads = asyncio.run(_offered(Wish(memory_bytes=memory, reserve=kept), threads))
    if not ipaddress.IPv4Address(host).is_loopback:
        click.echo(f"edgekv: {WARNING.format(host=host)}.", err=True)
    lender = Lender(host, port, offered, num_threads)

    def tell_ready() -> None:
        click.echo(f"edgekv: lending {_in_words(offered)} at {host}:{port}", err=True)

    def tell_death(how: str) -> None:
        click.echo(f"edgekv: the process that lends ended ({how}) and is started again.", err=True)

    if asyncio.run(lender.run(tell_ready, tell_death)) is signal.SIGINT:
        raise click.Abort


async def _offered(wish: Wish, threads: int | None) -> tuple[tuple[Loan, ...], int]:
    """What is lent and how many threads compute. Says what of the wish cannot be kept."""
    from edgekv.budget.lending import loans
    from edgekv.budget.machine import read_machine
    from edgekv.errors import Unavailable
    from edgekv.service.devices import read_lendable

    machine, devices = read_machine(), await read_lendable()
    offered, notes = loans(devices, machine, wish)
    if not offered:
        raise Unavailable("This machine has no memory to lend; close other programs first.")
    usable = machine.usable_cpus.value
    if threads is not None and threads > usable:
        notes = (*notes, f"--threads {threads} is more than the CPUs usable here: {usable}.")
    for note in notes:
        click.echo(f"edgekv: {note}", err=True)
    return offered, min(threads or machine.cores.value, usable)


def _in_words(offered: Sequence[Loan]) -> str:
    return " + ".join(f"{format_size(one.bytes)} of {one.device_id}" for one in offered)
