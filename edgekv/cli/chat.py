"""`edgekv chat`: the terminal app, or plain lines where there is no terminal for it."""

from __future__ import annotations

import asyncio
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

import click
from click.core import ParameterSource

from edgekv.budget.wish import Wish
from edgekv.cli.options import budget_options, warm_option
from edgekv.cli.plain_chat import answer_once, converse, is_dumb_terminal, read_question
from edgekv.errors import EdgeKVError
from edgekv.service.conduct import AS_USUAL
from edgekv.service.conversation import ChatModel
from edgekv.service.warm import WarmPrompt
from edgekv.service.worker import Worker

if TYPE_CHECKING:
    from edgekv.service.attached import AttachedWorker


@click.command()
@budget_options
@warm_option
@click.option("-p", "--prompt", metavar="TEXT", help="Ask this; what is on stdin follows it.")
@click.option(
    "--attach",
    default="auto",
    show_default=True,
    metavar="auto|none|URL",
    help="Use the model of a running server: one on this machine, none, or that at URL.",
)
def command(
    path: str, wish: Wish, prompt: str | None, warm: tuple[WarmPrompt, ...], attach: str
) -> None:
    """Talk to a model in the terminal.

    With -p, or with a pipe on either side, the answer alone goes to stdout:

        git diff | edgekv chat -p "Write a commit message"
    """
    server = _server(attach, path, wish, warms=bool(warm))
    model = ChatModel(server or Worker(path, wish, replace(AS_USUAL, warm=warm)))
    if prompt is not None or not (_is_terminal(sys.stdin) and _is_terminal(sys.stdout)):
        answer_once(model, read_question(prompt))
    elif is_dumb_terminal() or not _is_terminal(sys.stderr):
        converse(model)
    else:
        _run_app(model, f"attached to {server.where}" if server else Path(path).stem)


def _server(attach: str, path: str, wish: Wish, *, warms: bool) -> AttachedWorker | None:
    """The server whose model is used, if one is: one copy of the weights is enough."""
    if attach == "none" or (attach == "auto" and warms):
        return None
    from edgekv.service.finding_host import running_server, server_at

    if attach == "auto":
        return running_server(path, wish, lambda why: click.echo(f"edgekv: {why}", err=True))
    if _is_given("model") or warms:
        raise click.UsageError(
            "A server holds the model and keeps the prompts that it was started with; "
            "leave MODEL and --warm out."
        )
    return server_at(attach, wish)


def _is_given(name: str) -> bool:
    source = click.get_current_context().get_parameter_source(name)
    return source is ParameterSource.COMMANDLINE


def _run_app(model: ChatModel, model_name: str) -> None:
    from edgekv.config.settings_file import read_settings
    from edgekv.tui.app import ChatApp

    settings = read_settings()
    app = ChatApp(model, model_name, settings.theme, settings.keys)

    async def run() -> EdgeKVError | None:
        try:
            return await app.run_async()
        finally:
            await model.close()

    error = asyncio.run(run())
    if error is not None:
        raise error
    if app.return_code:
        raise SystemExit(app.return_code)


def _is_terminal(stream: TextIO | None) -> bool:
    """A stream is None where the shell closed it."""
    return stream is not None and stream.isatty()
