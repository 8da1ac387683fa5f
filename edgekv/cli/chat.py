"""`edgekv chat`: the terminal app, or plain lines where there is no terminal for it."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TextIO

import click
from click.core import ParameterSource

from edgekv.budget.wish import Wish
from edgekv.cli.options import budget_options, warm_option
from edgekv.cli.plain_chat import answer_once, converse, is_dumb_terminal, read_question
from edgekv.cli.settable import QUESTION
from edgekv.errors import EdgeKVError
from edgekv.history.archive import Archive
from edgekv.service.conduct import AS_USUAL
from edgekv.service.conversation import ChatModel, Habits
from edgekv.service.warm import WarmPrompt
from edgekv.service.worker import Worker

SIGNALLED = 128
"""Exit codes from here on are those of programs that a signal ended."""


class ChatCommand(click.Command):
    """What to ask may stand behind the model, or alone; it becomes the prompt."""

    def invoke(self, ctx: click.Context) -> object:
        asked = [ctx.params.pop("question"), ctx.meta.get(QUESTION), ctx.params["prompt"]]
        questions = [question for question in asked if question is not None]
        if len(questions) > 1:
            raise click.UsageError("Ask one thing: in quotes, or with -p.", ctx)
        ctx.params["prompt"] = questions[0] if questions else None
        return super().invoke(ctx)


@click.command(cls=ChatCommand)
@budget_options
@warm_option
@click.argument("question", required=False)
@click.option("-p", "--prompt", metavar="TEXT", help="Ask this; what is on stdin follows it.")
@click.option(
    "--attach",
    default="auto",
    show_default=True,
    metavar="auto|none|URL",
    help="Use the model of a running server: one on this machine, none, or that at URL.",
)
@click.option(
    "--continue", "begins", flag_value="last", help="Go on with the conversation changed last."
)
@click.option(
    "--unsaved", "begins", flag_value="unsaved", help="Save nothing of what is said this time."
)
def command(
    path: str,
    wish: Wish,
    prompt: str | None,
    warm: tuple[WarmPrompt, ...],
    attach: str,
    begins: str | None,
) -> None:
    """Talk to a model in the terminal.

    With a question in quotes or -p, or with a pipe on either side, the answer alone goes to
    stdout, and nothing is saved:

        git diff | edgekv chat "Write a commit message"
    """
    model, name = _model(attach, path, wish, warm)
    if prompt is not None or not (_is_terminal(sys.stdin) and _is_terminal(sys.stdout)):
        answer_once(model, read_question(prompt))
        return
    archive = _archive(begins)
    if is_dumb_terminal() or not _is_terminal(sys.stderr):
        converse(model, name, archive, goes_on=begins == "last")
    else:
        _run_app(model, name, archive, lambda other: _own_model(str(other), wish, ()))


def _archive(begins: str | None) -> Archive:
    archive = Archive(None) if begins == "unsaved" else Archive.of_user()
    if begins == "last":
        archive.resume_last()
    return archive


def _model(
    attach: str, path: str, wish: Wish, warm: tuple[WarmPrompt, ...]
) -> tuple[ChatModel, str]:
    """What to talk to and its name: a server's model, for one copy of the weights is enough, or
    one of this program's own.
    """
    own = _own_model(path, wish, warm)
    name = Path(path).stem
    if attach == "none" or (attach == "auto" and (warm or wish.adapters)):
        return own, name
    from edgekv.service.finding_host import running_server, server_at

    if attach == "auto":
        server = running_server(path, wish, lambda why: click.echo(f"edgekv: {why}", err=True))
        if server is None:
            return own, name
        return ChatModel(server, habits=_habits(path)), f"{name} at {server.where}"
    if _is_given("model") or warm or wish.adapters:
        raise click.UsageError(
            "A server holds the model and keeps the prompts that it was started with; "
            "leave MODEL, --lora and --warm out."
        )
    return server_at(attach, wish, _habits(path)), f"attached to {attach}"


def _own_model(path: str, wish: Wish, warm: tuple[WarmPrompt, ...]) -> ChatModel:
    return ChatModel(Worker(path, wish, replace(AS_USUAL, warm=warm)), habits=_habits(path))


def _habits(path: str) -> Habits:
    """What the settings say of every conversation with the model at `path`."""
    from edgekv.config.settings_file import read_settings

    said = read_settings().of_model(path)
    return Habits(said.system, said.sampling.params())


def _is_given(name: str) -> bool:
    context = click.get_current_context()
    is_said = context.get_parameter_source(name) is ParameterSource.COMMANDLINE
    return is_said and context.params.get(name) is not None


def _run_app(
    model: ChatModel, model_name: str, archive: Archive, open_model: Callable[[Path], ChatModel]
) -> None:
    from edgekv.config.settings_file import read_settings
    from edgekv.tui.app import ChatApp

    for name in ("COLUMNS", "LINES"):
        # Where a shell hands on the size that it began with, no other would ever be noticed.
        os.environ.pop(name, None)
    settings = read_settings()
    app = ChatApp(model, model_name, settings.theme, settings.keys, archive, open_model)

    async def run() -> EdgeKVError | None:
        try:
            return await app.run_async()
        finally:
            # What a signal ended is opened again the next time.
            app.chat.dialogue.close(orderly=(app.return_code or 0) < SIGNALLED)
            archive.close()
            await app.chat.model.close()

    error = asyncio.run(run())
    if error is not None:
        raise error
    if app.return_code:
        raise SystemExit(app.return_code)


def _is_terminal(stream: TextIO | None) -> bool:
    """A stream is None where the shell closed it."""
    return stream is not None and stream.isatty()
