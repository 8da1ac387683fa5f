"""`edgekv chat`: the terminal app, or plain lines where there is no terminal for it."""

from __future__ import annotations

import asyncio
import sys
from dataclasses import replace
from pathlib import Path
from typing import TextIO

import click

from edgekv.budget.wish import Wish
from edgekv.cli.options import budget_options, warm_option
from edgekv.cli.plain_chat import answer_once, converse, is_dumb_terminal, read_question
from edgekv.errors import EdgeKVError
from edgekv.service.conduct import AS_USUAL
from edgekv.service.conversation import ChatModel
from edgekv.service.warm import WarmPrompt
from edgekv.service.worker import Worker


@click.command()
@budget_options
@warm_option
@click.option("-p", "--prompt", metavar="TEXT", help="Ask this; what is on stdin follows it.")
def command(path: str, wish: Wish, prompt: str | None, warm: tuple[WarmPrompt, ...]) -> None:
    """Talk to a model in the terminal.

    With -p, or with a pipe on either side, the answer alone goes to stdout:

        git diff | edgekv chat -p "Write a commit message"
    """
    model = ChatModel(Worker(path, wish, replace(AS_USUAL, warm=warm)))
    if prompt is not None or not (_is_terminal(sys.stdin) and _is_terminal(sys.stdout)):
        answer_once(model, read_question(prompt))
    elif is_dumb_terminal() or not _is_terminal(sys.stderr):
        converse(model)
    else:
        _run_app(model, Path(path).stem)


def _run_app(model: ChatModel, model_name: str) -> None:
    from edgekv.tui.app import ChatApp

    app = ChatApp(model, model_name)

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
