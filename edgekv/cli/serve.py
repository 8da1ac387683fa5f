"""`edgekv serve`: a model behind an OpenAI-style API."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from edgekv.budget.outcomes import kv_words
from edgekv.budget.sizes import format_size
from edgekv.budget.wish import Wish
from edgekv.cli.options import budget_options, conduct_options, embeddings_option
from edgekv.cli.settable import Settable, said_in_settings
from edgekv.core.plan import MemoryPlan
from edgekv.errors import SettingsError

if TYPE_CHECKING:
    import ssl

    from edgekv.server.guard import Access
    from edgekv.service.conduct import Conduct

PORT = 8642
KEY_VARIABLE = "EDGEKV_API_KEY"
FILE = click.Path(exists=True, dir_okay=False, path_type=Path)


@click.command()
@budget_options
@embeddings_option
@click.option(
    "--host",
    cls=Settable,
    default="127.0.0.1",
    show_default=True,
    help="Address to listen on.",
)
@click.option(
    "--port",
    cls=Settable,
    default=PORT,
    show_default=True,
    type=click.IntRange(0, 65535),
    help="0 takes any free port.",
)
@click.option(
    "--api-key",
    envvar=KEY_VARIABLE,
    metavar="KEY",
    help="What callers must send; EDGEKV_API_KEY keeps it out of process lists.",
)
@click.option(
    "--api-key-file",
    cls=Settable,
    type=FILE,
    help="A file that holds the key.",
)
@click.option(
    "--cors",
    "origins",
    cls=Settable,
    multiple=True,
    metavar="ORIGIN",
    help="A web site whose pages may ask, like https://example.org; may be repeated.",
)
@click.option("--tls-cert", cls=Settable, type=FILE, help="A certificate, to answer by HTTPS.")
@click.option("--tls-key", cls=Settable, type=FILE, help="Its key, if the certificate has none.")
@click.option(
    "--drain",
    cls=Settable,
    default=3.0,
    show_default=True,
    type=click.FloatRange(0),
    metavar="SECONDS",
    help="For answers under way, once told to stop.",
)
@conduct_options
def command(path: str, wish: Wish, conduct: Conduct, drain: float, **listening: Any) -> None:
    """Serve MODEL over an OpenAI-style API until interrupted."""
    from edgekv.server import run
    from edgekv.server.large_blocks import keep_large_blocks_apart
    from edgekv.server.log import log_to_stderr
    from edgekv.service.discovery import announced
    from edgekv.service.worker import Worker

    # The engine and the renderer of templates have no use for it.
    os.environ.pop(KEY_VARIABLE, None)
    certificate = listening.pop("tls_cert"), listening.pop("tls_key")
    encryption = _encryption(*certificate)
    port, key_file = listening.pop("port"), listening["api_key_file"]
    access = _access(**listening)

    def reread() -> str | None:
        try:
            if encryption is not None:
                encryption.load_cert_chain(*certificate)
            return _access(**listening).api_key
        except (OSError, click.UsageError) as error:
            raise SettingsError(str(error)) from error

    # A terminal that is closed ends what runs in it; who has none is told to read again.
    reads_again = sys.stdin is None or not sys.stdin.isatty()
    manner = run.Manner(encryption, drain, reread if reads_again else None)
    listener = run.listen(access.host, port)
    log_to_stderr()
    keep_large_blocks_apart()
    url = run.url_of(listener, is_encrypted=encryption is not None)

    async def serve() -> signal.Signals:
        worker = Worker(path, wish, conduct)

        def on_ready() -> None:
            assert worker.plan is not None
            click.echo(f"edgekv: serving {_in_one_line(worker.plan)} at {url}/v1", err=True)

        has_key = access.api_key is not None
        with announced(url, path, key_file, has_key=has_key):
            return await run.run(worker, listener, access, on_ready, manner)

    if asyncio.run(serve()) is signal.SIGINT:
        raise click.Abort


def _encryption(certificate: Path | None, key: Path | None) -> ssl.SSLContext | None:
    from edgekv.server.encryption import encryption

    if certificate is None and key is not None:
        raise click.UsageError("--tls-key belongs to a certificate; name it with --tls-cert.")
    return None if certificate is None else encryption(certificate, key)


def _access(
    host: str, api_key: str | None, api_key_file: Path | None, origins: tuple[str, ...]
) -> Access:
    from edgekv.server.guard import Access, is_loopback

    if api_key is not None and said_in_settings("api_key_file"):
        api_key_file = None
    access = Access(host, _key(api_key, api_key_file), _checked(origins))
    if access.api_key is None and not is_loopback(host):
        raise click.UsageError(
            f"Anybody who reaches {host} could use this server; "
            "give it a key with --api-key or --api-key-file."
        )
    return access


def _key(given: str | None, file: Path | None) -> str | None:
    if given is not None and file is not None:
        raise click.UsageError("Give the key once: either --api-key or --api-key-file.")
    key = given if file is None else file.read_bytes().decode("ascii", "replace").strip()
    if key is not None and not re.fullmatch("[!-~]+", key):
        raise click.UsageError("The key must be printable ASCII without spaces, and not empty.")
    return key


def _checked(origins: tuple[str, ...]) -> tuple[str, ...]:
    for origin in origins:
        if origin != "*" and not re.fullmatch(r"[a-z][a-z0-9+.-]*://[^/\s]+", origin):
            raise click.UsageError(
                f"'{origin}' is not an origin; write it like https://example.org, "
                "without a path or a slash at the end."
            )
    return origins


def _in_one_line(plan: MemoryPlan) -> str:
    choice = plan.choice
    return (
        f"{plan.model.name} (context length {choice.context_length}, slots {choice.slots}, "
        f"cells {choice.cells}, KV type {kv_words(plan)}, "
        f"{format_size(plan.total_bytes)} of {format_size(plan.budget_bytes)})"
    )
