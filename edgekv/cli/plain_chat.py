"""Chat without a screen: one answer for a pipe, or question and answer on a plain terminal."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable
from contextlib import aclosing
from io import TextIOWrapper
from typing import TextIO

import click

from edgekv.errors import EdgeKVError
from edgekv.history.archive import Archive
from edgekv.history.dialogue import Dialogue
from edgekv.history.entries import ConversationId, Ending, Opened
from edgekv.service.conversation import AnswerStats, ChatModel
from edgekv.service.states import LoadStep, State
from edgekv.tui.visible import visible
from edgekv.tui.words import load_words, notice_words


def is_dumb_terminal() -> bool:
    """Whether the terminal says that it understands no control sequences."""
    return os.name != "nt" and os.environ.get("TERM", "") in {"", "dumb", "unknown"}


def read_question(prompt: str | None) -> str:
    """The text to send: `prompt`, then stdin to its end unless a person would have to type it.

    Raises `click.UsageError` if there is nothing to ask.
    """
    types_it = sys.stdin is not None and sys.stdin.isatty()
    if prompt is None and types_it:
        _talk("Type your message, then press Ctrl+D.\n")
    piped = "" if sys.stdin is None or (prompt is not None and types_it) else _read_stdin()
    question = "\n\n".join(text for text in (prompt, piped) if text and text.strip())
    if not question:
        raise click.UsageError("There is nothing to ask; give text on stdin or with -p.")
    return question


def answer_once(model: ChatModel, question: str) -> None:
    """Print the answer as it comes, exactly as it is where stdout is no terminal.

    Raises `SystemExit`, without a word, if nobody reads it to its end.
    """
    if sys.stdout is None:
        raise click.ClickException("The standard output is closed, so there is no way to answer.")
    take_any_text(sys.stdout)
    try:
        asyncio.run(_answer_once(model, question))
    except BrokenPipeError:
        # Python flushes stdout once more when it ends; give it somewhere to go.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise SystemExit(1) from None


async def _answer_once(model: ChatModel, question: str) -> None:
    # Pipes carry what people would not put into a list of conversations.
    dialogue = Dialogue(Archive(None))
    dialogue.ask(question)
    dialogue.begin_answer("")
    try:
        await model.start(_tell_progress())
        write = _write_visible if sys.stdout.isatty() else _write
        _say(notice_words(await _write_answer(model, dialogue, write), None))
    finally:
        await model.close()


def converse(model: ChatModel, model_name: str, archive: Archive, *, goes_on: bool) -> None:
    """Ask and answer until stdin ends. Ctrl+C stops an answer, or at the prompt the program.

    Unless it `goes_on` with the one that the archive names, a new conversation begins: here
    nobody could leave another.
    """
    take_any_text(sys.stdin)
    take_any_text(sys.stdout)
    dialogue = Dialogue(archive)
    # The loop only turns while there is something to answer, so that Ctrl+C and plain reading
    # work at the prompt.
    with asyncio.Runner() as runner:
        try:
            if archive.to_open is not None and goes_on:
                _show_last(dialogue, archive.to_open)
            elif archive.to_open is not None:
                _say(_broken_off_words(archive.history.open(archive.to_open)))
            _say(archive.problem)
            runner.run(model.start(_tell_progress()))
            _write("> ")
            while question := sys.stdin.readline():
                if question.strip():
                    runner.run(_reply(model, model_name, dialogue, question.strip()))
                _write("> ")
            _write("\n")
        finally:
            archive.close()
            runner.run(model.close())


def _show_last(dialogue: Dialogue, conversation: ConversationId) -> None:
    """Go on with a conversation, at whose end the user finds themselves again."""
    dialogue.open(conversation)
    _say(f"going on with “{dialogue.title}”")
    last = dialogue.entries[-1]
    mark = "> " if last.message.role == "user" else ""
    ending = "" if last.ending in {None, Ending.WHOLE} else f" [{last.ending}]"
    _write_visible(f"{mark}{last.message.content}{ending}\n")


def _broken_off_words(opened: Opened) -> str:
    return (
        f"EdgeKV ended in the middle of an answer, in “{opened.title}”; "
        "'edgekv chat --continue' goes on there"
    )


async def _reply(model: ChatModel, name: str, dialogue: Dialogue, question: str) -> None:
    """One more answer, as far as it comes."""
    dialogue.ask(question)
    dialogue.begin_answer(name)
    ending = Ending.WHOLE
    try:
        _say(notice_words(await _write_answer(model, dialogue, _write_visible), None))
    except EdgeKVError as error:
        ending = Ending.BROKEN_OFF
        _say(notice_words(AnswerStats(), error))
    except asyncio.CancelledError:
        ending = Ending.STOPPED
        _write("\n")
    if dialogue.answer_is_empty:
        dialogue.withdraw_answer()
        dialogue.withdraw_question()
    else:
        dialogue.end_answer(ending)


async def _write_answer(
    model: ChatModel, dialogue: Dialogue, write: Callable[[str], None]
) -> AnswerStats:
    """Write what is said, and tell a person that there is thinking before it."""
    stats, last, thinks = AnswerStats(), "", False
    async with aclosing(model.answer(dialogue.conversation)) as parts:
        async for part in parts:
            if part.thought and not thinks:
                _talk("(thinking)\n")
            stats, last, thinks = part.stats, part.text or last, thinks or bool(part.thought)
            dialogue.grow(part)
            write(part.text)
    if not last.endswith("\n"):
        write("\n")
    return stats


def take_any_text(stream: TextIO) -> None:
    """Show a character that the terminal's encoding lacks as a question mark, and go on."""
    # A stream that was read from already can only be left as it is.
    if isinstance(stream, TextIOWrapper) and stream.errors != "replace":
        stream.reconfigure(errors="replace")


def _write(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()


def _write_visible(text: str) -> None:
    _write(visible(text))


def _read_stdin() -> str:
    try:
        return sys.stdin.buffer.read().decode("utf-8-sig")
    except UnicodeDecodeError:
        raise click.UsageError("The standard input is not UTF-8 text.") from None


def _say(sentence: str) -> None:
    if sentence:
        click.echo(f"edgekv: {visible(sentence)}", err=True)


def _talk(text: str) -> None:
    """Say something to a person, if there is one at the other end of stderr."""
    if sys.stderr is not None and sys.stderr.isatty():
        click.echo(visible(text), err=True, nl=False)


def _tell_progress() -> Callable[[LoadStep], None]:
    """Shows each step of a start in place of the last, and nothing once the model is ready."""
    shown = ""
    is_dumb = is_dumb_terminal()

    def tell(step: LoadStep) -> None:
        nonlocal shown
        if is_dumb:
            step = LoadStep(step.state)  # a hundred percentages would make a hundred lines
        words = "" if step.state in {State.READY, State.CLOSED} else f"{load_words(step)} …"
        if words != shown:
            _talk("\r" + words.ljust(len(shown)) + ("" if words else "\r"))
            shown = words

    return tell
