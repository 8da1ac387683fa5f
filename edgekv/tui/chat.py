"""The chat screen: the conversation, the message box, and what memory it all takes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, TypeAlias

from textual import on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Horizontal
from textual.message import Message
from textual.screen import Screen
from textual.widgets import Footer, Static

from edgekv.errors import EdgeKVError, NotSaved
from edgekv.history.archive import Archive
from edgekv.history.dialogue import Dialogue
from edgekv.service.conversation import ChatModel
from edgekv.service.states import LoadStep, State
from edgekv.tui.command_actions import CommandActions
from edgekv.tui.commands import is_command
from edgekv.tui.composer import Composer
from edgekv.tui.conversation_list import ConversationList
from edgekv.tui.keys import CHAT_KEYS
from edgekv.tui.line import Line
from edgekv.tui.meters import MemoryBar, memory_parts
from edgekv.tui.prompt_input import PromptInput
from edgekv.tui.spoken import Spoken
from edgekv.tui.talk import Talk
from edgekv.tui.transcript import BROKEN_OFF, Transcript
from edgekv.tui.words import choice_words, read_context

SECONDS_BETWEEN_LOOKS = 0.25
"""How often the memory bar looks at the engine's last snapshot."""
SAVED_AGAIN = "Conversations are saved again, with all that was said meanwhile."
OpenModel: TypeAlias = Callable[[Path], ChatModel]
"""The model in a file, not started yet, opened as the user wished when EdgeKV was started."""


class ChatScreen(Screen[None]):
    BINDINGS: ClassVar[list[BindingType]] = CHAT_KEYS

    @dataclass
    class Loading(Message):
        step: LoadStep

        def can_replace(self, message: Message) -> bool:
            return isinstance(message, ChatScreen.Loading)

    class Ready(Message):
        """The model answers from now on."""

    class Listening(Message):
        """The message box takes what is typed from now on."""

    def __init__(
        self,
        model: ChatModel,
        model_name: str,
        archive: Archive,
        open_model: OpenModel | None = None,
    ) -> None:
        """Without `open_model` no other model can be opened."""
        super().__init__()
        self.archive, self.open_model = archive, open_model
        self.dialogue = Dialogue(archive)
        self.talk = Talk(self.dialogue, model, model_name)
        self.commands = CommandActions(self)
        self._one_command = asyncio.Lock()
        self._shown_problem = ""

    def compose(self) -> ComposeResult:
        with Horizontal(id="title"):
            yield Static("EdgeKV", id="product")
            yield Line(self.talk.model_name, classes="model")
            yield Line("", classes="unsaved")
            yield Line("", classes="choice")
        with Horizontal(id="middle"):
            yield ConversationList(self.archive, self.dialogue)
            yield self.talk
        yield Composer(self.talk.check_room, self.commands.arguments)
        yield MemoryBar(id="memory")
        yield Footer(show_command_palette=False)
        yield Static("window too small", id="too-small")

    async def on_mount(self) -> None:
        self.prompt.focus()
        self.prompt.remember(self.archive.history.sent.all())
        self.run_worker(self._load(), group="load")
        self.set_interval(SECONDS_BETWEEN_LOOKS, self._look)
        if self.archive.to_open is not None:
            await self.talk.open(self.archive.to_open)
        if self.archive.was_broken_off:
            await self.talk.transcript.add_notice(BROKEN_OFF)
        self.post_message(self.Listening())

    @property
    def prompt(self) -> PromptInput:
        return self.query_one(PromptInput)

    # --- the model ---

    @property
    def model(self) -> ChatModel:
        """What the conversation talks to now."""
        return self.talk.model

    async def _load(self) -> None:
        try:
            await self.model.start(self._hear)
        except EdgeKVError as error:
            self.app.exit(error, return_code=1)
        else:
            self._welcome_model()

    def _welcome_model(self) -> None:
        self.talk.is_ready.set()
        self.post_message(self.Ready())

    async def exchange_model(self, model: ChatModel, name: str) -> None:
        """Go on with another model, or with this one if that cannot be opened.

        Raises the `EdgeKVError` of that one. Two at once might not fit, so this one goes first.
        """
        before, before_name = self.model, self.talk.model_name
        self.talk.is_ready.clear()
        await before.close()
        try:
            self.talk.model, self.talk.model_name = model, name
            await model.start(self._hear)
        except EdgeKVError:
            self.talk.model, self.talk.model_name = before, before_name
            await before.start(self._hear)
            raise
        finally:
            self._welcome_model()

    def _hear(self, step: LoadStep) -> None:
        self.post_message(self.Loading(step))

    @on(Loading)
    def _show_loading(self, message: Loading) -> None:
        self.query_one(MemoryBar).step = message.step
        if message.step.state in {State.RESTARTING, State.LOADING}:
            self.query_one(MemoryBar).parts = ()

    @on(Ready)
    def _show_name(self) -> None:
        self.query_one("#title .model", Line).show(self.talk.model_name)
        self._look()

    @on(Talk.Changed)
    def _look(self) -> None:
        worker = self.model.worker
        if worker.plan is not None and worker.state is State.READY:
            self.query_one(".choice", Line).show(choice_words(worker.plan))
            self.query_one(MemoryBar).parts = memory_parts(worker.plan, worker.snapshot)
            self._show_context(worker.plan.choice.context_length)
        self.query_one(".unsaved", Line).show("" if self.archive.is_saved else "not saved")
        if self.archive.problem != self._shown_problem:
            self.call_later(self._say_unsaved)

    async def _say_unsaved(self) -> None:
        if self.archive.problem != self._shown_problem:
            self._shown_problem = self.archive.problem
            unsaved = f"{self._shown_problem} This conversation goes on unsaved; /export writes it."
            await self.talk.transcript.add_notice(unsaved if self._shown_problem else SAVED_AGAIN)

    @on(Talk.Changed)
    def _refresh_keys(self) -> None:
        if self.talk.turn is None:
            self.prompt.border_title = None
        self.query_one(ConversationList).refresh_list()
        self.refresh_bindings()

    def _show_context(self, context_length: int) -> None:
        reading = read_context(self.talk.num_held, context_length)
        self.prompt.border_subtitle = reading.words
        self.prompt.set_class(reading.level == "low", "-low")
        self.prompt.set_class(reading.level == "out", "-out")

    # --- the message box ---

    @on(PromptInput.Sent)
    async def _take_text(self, message: PromptInput.Sent) -> None:
        if is_command(message.text):
            self._accept(message.text)
            # Not here: opening a model takes a while, and keys and its progress must go on.
            self.run_worker(self._run(message.text), group="command")
        elif self.talk.turn is not None:
            self.prompt.border_title = "one answer at a time · esc stops this one"
        else:
            self._accept(message.text)
            text = self.query_one(Composer).with_files(message.text)
            await self.talk.ask(text, message.text)

    async def _run(self, text: str) -> None:
        """A command that cannot be done comes back into the box, under the reason."""
        try:
            async with self._one_command:
                await self.commands.run(text)
        except EdgeKVError as error:
            self.prompt.put_back(text)
            await self._refuse(Composer.Refused(str(error)))

    @on(Composer.Refused)
    async def _refuse(self, message: Composer.Refused) -> None:
        await self.talk.transcript.reply(message.why, "notice")

    def _accept(self, text: str) -> None:
        self.prompt.accept()
        try:
            self.archive.history.sent.add(text, self.dialogue.id)
        except NotSaved as error:
            self.archive.problem = self.archive.problem or str(error)

    @on(Talk.GaveBack)
    def _put_back(self, message: Talk.GaveBack) -> None:
        self.prompt.put_back(message.text, replaces=message.replaces)
        self.prompt.focus()

    # --- what was said ---

    @on(Spoken.LeaveChosen)
    def _leave(self) -> None:
        self.prompt.focus()

    @on(Spoken.CopyChosen)
    def _copy(self, message: Spoken.CopyChosen) -> None:
        self.app.copy_to_clipboard(self.dialogue.entries[message.spoken.position].message.content)
        self.notify("Copied it", timeout=2)

    @on(ConversationList.Opened)
    def _open(self, message: ConversationList.Opened) -> None:
        if message.conversation is None:
            self.action_new()
            return
        self._close_list()
        if message.conversation != self.dialogue.id:
            self.talk.call_later(self.talk.open, message.conversation)

    @on(ConversationList.Closed)
    def _close_list(self) -> None:
        self.query_one(ConversationList).close()
        self.prompt.focus()

    # --- keys ---

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        match action:
            case "stop":
                return self.talk.turn is not None
            case "regenerate":
                return self.talk.can_ask_again
            case "copy" | "other":
                return self.dialogue.last_answer is not None
        return True

    def action_stop(self) -> None:
        self.talk.stop()

    # Keys come in between any two steps of a turn's handlers; what follows waits for those.
    def action_new(self) -> None:
        self.talk.call_later(self.talk.start_over, self.dialogue.system)

    def action_regenerate(self) -> None:
        self.talk.call_later(self.talk.ask_again)

    def action_other(self, step: int) -> None:
        self.talk.call_later(self.talk.turn_to, len(self.dialogue.entries) - 1, step)

    def action_copy(self) -> None:
        self.app.copy_to_clipboard(self.dialogue.last_answer or "")
        self.notify("Copied the last answer", timeout=2)

    def action_go_back(self) -> None:
        said = self.query(Spoken)
        if said:
            said.last().focus()

    async def action_scroll(self, pages: int) -> None:
        transcript = self.query_one(Transcript)
        if pages < 0 and transcript.scroll_offset.y == 0:
            await transcript.show_earlier(self.dialogue.entries)
        elif pages < 0:
            transcript.scroll_page_up()
        else:
            transcript.scroll_page_down()

    def action_toggle_list(self) -> None:
        conversations = self.query_one(ConversationList)
        if conversations.display:
            self._close_list()
        else:
            conversations.open()
