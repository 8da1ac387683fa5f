"""The chat screen: asks, draws what is answered, and shows what memory it takes."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Horizontal
from textual.message import Message
from textual.screen import Screen
from textual.widgets import Footer, Static
from textual.worker import Worker as Task

from edgekv.core.events import FinishReason
from edgekv.errors import EdgeKVError, PromptTooLong
from edgekv.service.conversation import AnswerPart, AnswerStats, ChatModel, Conversation
from edgekv.service.worker import LoadStep, State
from edgekv.tui.answer import Answer
from edgekv.tui.keys import CHAT_KEYS
from edgekv.tui.line import Line
from edgekv.tui.meters import MemoryBar, memory_parts
from edgekv.tui.prompt_input import PromptInput
from edgekv.tui.transcript import Transcript
from edgekv.tui.words import choice_words, ending_words, notice_words, read_context, stats_words

SECONDS_BETWEEN_LOOKS = 0.25
"""How often the memory bar looks at the engine's last snapshot."""


@dataclass(eq=False)
class Turn:
    """One question on its way to an answer."""

    asked: Conversation
    question: Line
    answer: Answer
    text: str = ""
    stats: AnswerStats = field(default_factory=AnswerStats)
    task: Task[None] | None = None


class ChatScreen(Screen[None]):
    BINDINGS: ClassVar[list[BindingType]] = CHAT_KEYS

    @dataclass
    class Loading(Message):
        step: LoadStep

        def can_replace(self, message: Message) -> bool:
            return isinstance(message, ChatScreen.Loading)

    class Ready(Message):
        """The model answers from now on."""

    @dataclass
    class Grew(Message):
        turn: Turn
        part: AnswerPart

    @dataclass
    class Ended(Message):
        """The turn is over; without an `error` it was finished or stopped."""

        turn: Turn
        error: EdgeKVError | None

    def __init__(self, model: ChatModel, model_name: str) -> None:
        super().__init__()
        self._model, self._model_name = model, model_name
        self._is_ready = asyncio.Event()
        self.conversation = Conversation()
        self._num_held = 0
        self.turn: Turn | None = None

    def compose(self) -> ComposeResult:
        with Horizontal(id="title"):
            yield Static("EdgeKV", id="product")
            yield Line(self._model_name, classes="model")
            yield Line("", classes="choice")
        yield Transcript()
        yield PromptInput(id="prompt")
        yield MemoryBar(id="memory")
        yield Footer()
        yield Static("window too small", id="too-small")

    def on_mount(self) -> None:
        self.query_one(PromptInput).focus()
        self.run_worker(self._load(), group="load")
        self.set_interval(SECONDS_BETWEEN_LOOKS, self._look)

    # --- the model ---

    @property
    def model(self) -> ChatModel:
        """What the conversation talks to now."""
        return self._model

    async def _load(self) -> None:
        try:
            await self._model.start(self._hear)
        except EdgeKVError as error:
            self.app.exit(error, return_code=1)
        else:
            self._is_ready.set()
            self.post_message(self.Ready())

    def _hear(self, step: LoadStep) -> None:
        self.post_message(self.Loading(step))

    @on(Loading)
    def _show_loading(self, message: Loading) -> None:
        self.query_one(MemoryBar).step = message.step
        if message.step.state in {State.RESTARTING, State.LOADING}:
            self.query_one(MemoryBar).parts = ()

    @on(Ready)
    def _look(self) -> None:

        worker = self._model.worker
        if worker.plan is not None and worker.state is State.READY:
            self.query_one(".choice", Line).show(choice_words(worker.plan))
            self.query_one(MemoryBar).parts = memory_parts(worker.plan, worker.snapshot)
            self._show_context(worker.plan.choice.context_length)

    # --- a turn, from question to answer ---

    @on(PromptInput.Sent)
    async def _take_question(self, message: PromptInput.Sent) -> None:
        prompt = self.query_one(PromptInput)
        if self.turn is not None:
            prompt.border_title = "one answer at a time · esc stops this one"
            return
        prompt.accept()
        await self._begin(self.conversation.ask(message.text), Line(message.text, "question"))

    async def _begin(self, asked: Conversation, question: Line) -> None:
        self.turn = turn = Turn(asked, question, Answer())
        await self.query_one(Transcript).begin_turn(question, turn.answer)
        turn.answer.grow("", "reading" if self._is_ready.is_set() else "waiting for the model")
        turn.task = self.run_worker(self._write(turn), group="answer")
        self.refresh_bindings()

    async def _write(self, turn: Turn) -> None:
        error: EdgeKVError | None = None
        try:
            await self._is_ready.wait()
            async with aclosing(self._model.answer(turn.asked)) as parts:
                async for part in parts:
                    self.post_message(self.Grew(turn, part))
        except EdgeKVError as failure:
            error = failure
        finally:
            self.post_message(self.Ended(turn, error))

    @on(Grew)
    def _draw_part(self, message: Grew) -> None:
        turn = message.turn
        if turn is self.turn:
            turn.text += message.part.text
            turn.stats = message.part.stats
            turn.answer.grow(message.part.text, stats_words(turn.stats))

    @on(Ended)
    async def _end_turn(self, message: Ended) -> None:
        turn, error = message.turn, message.error
        if turn is not self.turn:
            return
        self.turn = None
        self.query_one(PromptInput).border_title = None
        if turn.text or turn.stats.reason is not None:
            self.conversation = turn.asked.reply(turn.text)
            self._num_held = turn.stats.num_held
            await turn.answer.finish(turn.text, ending_words(turn.stats, error))
        else:
            await self._withdraw(turn)
        if notice := notice_words(turn.stats, error):
            is_full = turn.stats.reason is FinishReason.LENGTH or isinstance(error, PromptTooLong)
            hint = " Ctrl+N begins a new conversation." if is_full else ""
            await self.query_one(Transcript).add_notice(notice + hint)
        self._look()
        self.refresh_bindings()

    async def _withdraw(self, turn: Turn) -> None:
        """Take back a question that got no answer: its text goes to the message box."""
        question = turn.asked.messages[-1].content
        self.conversation = Conversation(turn.asked.messages[:-1])
        await self.query_one(Transcript).take_away(turn.question, turn.answer)
        self.query_one(PromptInput).put_back(question)

    def _show_context(self, context_length: int) -> None:
        num_held = self.turn.stats.num_held if self.turn else self._num_held
        reading = read_context(num_held, context_length)
        prompt = self.query_one(PromptInput)
        prompt.border_subtitle = reading.words
        prompt.set_class(reading.level == "low", "-low")
        prompt.set_class(reading.level == "out", "-out")

    # --- keys ---

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        match action:
            case "stop":
                return self.turn is not None
            case "regenerate":
                return self.turn is None and self.conversation.last_answer is not None
            case "copy":
                return self.conversation.last_answer is not None
        return True

    def action_stop(self) -> None:
        """Stop the answer; what there is of it stays."""
        if self.turn is not None and self.turn.task is not None:
            self.turn.task.cancel()

    # Keys come in between any two steps of a turn's handlers; what follows waits for those.

    def action_new(self) -> None:
        self.call_later(self._start_over)

    def action_regenerate(self) -> None:
        self.call_later(self._ask_again)

    async def _start_over(self) -> None:
        self.action_stop()
        self.turn, self.conversation, self._num_held = None, Conversation(), 0
        self.query_one(PromptInput).border_title = None
        await self.query_one(Transcript).clear()
        self.refresh_bindings()

    async def _ask_again(self) -> None:
        if self.check_action("regenerate", ()):
            question = self.query(".question").last(Line)
            await self._begin(self.conversation.without_answer(), question)

    def action_copy(self) -> None:
        self.app.copy_to_clipboard(self.conversation.last_answer or "")
        self.notify("Copied the last answer", timeout=2)

    def action_scroll(self, pages: int) -> None:
        transcript = self.query_one(Transcript)
        if pages < 0:
            transcript.scroll_page_up()
        else:
            transcript.scroll_page_down()
