"""The conversation on the screen: what is asked, how it is answered, and how else it goes on."""

from __future__ import annotations

import asyncio
from contextlib import aclosing, suppress
from dataclasses import dataclass

from textual import on
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.message import Message

from edgekv.core.events import FinishReason
from edgekv.errors import EdgeKVError, PromptTooLong
from edgekv.history.dialogue import Dialogue
from edgekv.history.entries import ConversationId, Ending
from edgekv.service.attachments import Attachment, check_room
from edgekv.service.conversation import AnswerPart, ChatModel
from edgekv.tui.answer import Answer
from edgekv.tui.question import Question
from edgekv.tui.spoken import Spoken
from edgekv.tui.transcript import Transcript
from edgekv.tui.turn import SUMMARISE, Turn
from edgekv.tui.words import WAYS_ON, entry_words, notice_words, read_context, stats_words


class Talk(Vertical):
    """`model` and `model_name` may be exchanged while no turn is under way."""

    @dataclass
    class Grew(Message):
        turn: Turn
        part: AnswerPart

    @dataclass
    class Ended(Message):
        """The turn is over; without an `error` it was finished or stopped."""

        turn: Turn
        error: EdgeKVError | None

    class Changed(Message):
        """Something was said, or another conversation is open."""

    @dataclass
    class GaveBack(Message):
        """A text for the message box: it got no answer, or is to be said in other words."""

        text: str
        replaces: bool = False
        """It comes in place of what is written there."""

    def __init__(self, dialogue: Dialogue, model: ChatModel, model_name: str) -> None:
        super().__init__()
        self.dialogue, self.model, self.model_name = dialogue, model, model_name
        self.is_ready = asyncio.Event()
        """Whether the model is there."""
        self.turn: Turn | None = None
        self._warned_of: ConversationId | None = None
        self._counted: int | None = None
        """Tokens, where answers' figures are from before it was cut or copied."""

    def compose(self) -> ComposeResult:
        yield Transcript()

    @property
    def transcript(self) -> Transcript:
        return self.query_one(Transcript)

    @property
    def num_held(self) -> int:
        """Tokens that the conversation takes up by now, as far as that is known."""
        if self.turn is not None:
            return self.turn.stats.num_held
        return self.dialogue.num_held if self._counted is None else self._counted

    @property
    def can_ask_again(self) -> bool:
        return self.turn is None and self.dialogue.question_before() is not None

    # --- a turn, from question to answer ---

    async def ask(self, text: str, typed: str) -> None:
        """Send `text`; what was `typed` is given back if it cannot be answered."""
        is_first = not self.dialogue.entries
        self.dialogue.ask(text)
        position = len(self.dialogue.entries) - 1
        if is_first and position:  # a system text came first
            await self.transcript.show_entries(self.dialogue.entries[:position])
        await self._begin(Question(position, text), typed)

    async def ask_again(self) -> None:
        """Another answer to the last question."""
        position = self.dialogue.question_before()
        if self.turn is not None or position is None:
            return
        text = self.dialogue.entries[position].message.content
        shown = [q for q in self.query(Question) if q.position == position]
        await self._begin(shown[0] if shown else Question(position, text), None)

    async def _begin(self, question: Question, typed: str | None) -> None:
        self.dialogue.begin_answer(self.model_name)
        answer = Answer(question.position + 1)
        self.turn = turn = Turn(question, answer, typed)
        self._counted = None
        await self.transcript.begin_turn(question, answer)
        answer.grow("", "reading" if self.is_ready.is_set() else "waiting for the model")
        turn.task = self.run_worker(self._write(turn), group="answer")
        self.post_message(self.Changed())

    async def _write(self, turn: Turn) -> None:
        error: EdgeKVError | None = None
        try:
            await self.is_ready.wait()
            async with aclosing(self.model.answer(self.dialogue.conversation)) as parts:
                async for part in parts:
                    self.post_message(self.Grew(turn, part))
        except EdgeKVError as failure:
            error = failure
        finally:
            self.post_message(self.Ended(turn, error))

    @on(Grew)
    def _draw_part(self, message: Grew) -> None:
        turn, part = message.turn, message.part
        if turn is self.turn:
            turn.stats = part.stats
            turn.said += [part.text] if part.text else []
            turn.thought += [part.thought] if part.thought else []
            self.dialogue.grow(part)
            turn.answer.grow(part.text, stats_words(turn.stats), part.thought)

    @on(Ended)
    async def _end_turn(self, message: Ended) -> None:
        turn, error = message.turn, message.error
        if turn is not self.turn:
            return
        self.turn = None
        if turn.has_begun:
            await self._keep(turn, error)
        else:
            await self._withdraw(turn)
        if notice := notice_words(turn.stats, error):
            is_full = turn.stats.reason is FinishReason.LENGTH or isinstance(error, PromptTooLong)
            await self.transcript.add_notice(f"{notice} {WAYS_ON}" if is_full else notice)
        else:
            await self._warn()
        self.post_message(self.Changed())

    async def _warn(self) -> None:
        """Say that the context will be full soon, once in each conversation."""
        plan = self.model.worker.plan
        if plan is not None and self._warned_of != self.dialogue.id:
            reading = read_context(self.dialogue.num_held, plan.choice.context_length)
            if reading.level != "fine":
                self._warned_of = self.dialogue.id
                await self.transcript.add_notice(f"{reading.warning} {WAYS_ON}")

    async def _keep(self, turn: Turn, error: EdgeKVError | None) -> None:
        ending = Ending.BROKEN_OFF if error else Ending.WHOLE
        if error is None and turn.stats.reason in {None, FinishReason.CANCELLED}:
            ending = Ending.STOPPED
        self.dialogue.end_answer(ending)
        text, thought = "".join(turn.said), "".join(turn.thought)
        await turn.answer.finish(text, entry_words(self.dialogue.entries[-1]), thought)
        if turn.is_summary and ending is Ending.WHOLE and turn.stats.reason is FinishReason.STOP:
            await self._go_on_from_summary()
        await self._say_moved()

    async def _say_moved(self) -> None:
        if self.dialogue.moved_on:
            self.dialogue.moved_on = False
            await self.transcript.add_notice(
                "Another window went on with this conversation; here it is one of its own."
            )

    async def _withdraw(self, turn: Turn) -> None:
        """Take back what got no answer: a question's text goes to the message box."""
        self.dialogue.withdraw_answer()
        if turn.typed is None:
            await self.show()
        else:
            self.dialogue.withdraw_question()
            await self.transcript.take_away(turn.question, turn.answer)
            self.post_message(self.GaveBack(turn.typed))

    def stop(self) -> None:
        """Stop the answer; what there is of it stays."""
        if self.turn is not None and self.turn.task is not None:
            self.turn.task.cancel()

    def break_off(self) -> None:
        """The program is ended by another: an answer under way is kept as far as it came."""
        self.turn = None
        self.dialogue.close(orderly=False)

    # --- other ways to go on ---

    async def show(self) -> None:
        """Draw the conversation as it is now."""
        self._counted = None
        await self.transcript.show_entries(self.dialogue.entries)
        self.post_message(self.Changed())

    async def leave(self) -> None:
        """End the turn that is under way: what there is of it stays in its conversation."""
        turn, self.turn = self.turn, None
        if turn is not None:
            if turn.task is not None:
                turn.task.cancel()
            if turn.has_begun:
                self.dialogue.end_answer(Ending.STOPPED)
            else:
                self.dialogue.withdraw_answer()
                if turn.typed is not None:
                    self.dialogue.withdraw_question()

    async def start_over(self, system: str = "") -> None:
        await self.leave()
        self.dialogue.new(system)
        await self.show()

    async def open(self, conversation: ConversationId) -> None:
        await self.leave()
        self.dialogue.open(conversation)
        await self.show()

    async def summarise(self) -> None:
        """Have a summary written as the last answer here, and begin a new conversation with it."""
        await self.ask(SUMMARISE, SUMMARISE)
        if self.turn is not None:
            self.turn.is_summary = True

    async def _go_on_from_summary(self) -> None:
        title = self.dialogue.title
        self.dialogue.start_from(self.dialogue.entries[-2:], title)
        await self.show()
        await self.count()
        await self.transcript.reply(
            "This conversation begins with the summary; the whole one is in the list (Ctrl+L)."
        )

    async def count(self) -> None:
        """Ask how much room the conversation takes up now; figures of its answers are older."""
        if self.is_ready.is_set() and self.dialogue.entries:
            with suppress(EdgeKVError):  # a template may want a question; the next answer tells
                self._counted = await self.model.num_tokens(self.dialogue.conversation)
                self.post_message(self.Changed())

    async def check_room(self, attachment: Attachment) -> None:
        """Raises `InvalidValue` for a file that there is no room for in this conversation."""
        if self.is_ready.is_set():  # else too long a prompt is refused when it is sent
            await check_room(self.model.worker, self.num_held, attachment)

    @on(Spoken.ForkChosen)
    async def _fork(self, message: Spoken.ForkChosen) -> None:
        await self.fork(message.spoken.position)

    async def fork(self, position: int) -> None:
        await self.leave()
        self.dialogue.fork(position)
        await self.show()
        await self.transcript.add_notice(
            "A new conversation goes on from here; the other one is in the list (Ctrl+L)."
        )

    @on(Spoken.EditChosen)
    async def _edit(self, message: Spoken.EditChosen) -> None:
        await self.edit(message.spoken.position)

    async def edit(self, position: int) -> None:
        """Give back the question at or before `position`; what comes after it makes room."""
        question = self.dialogue.question_before(position)
        if question is not None and self.turn is None:
            text = self.dialogue.rewind(question)
            await self.show()
            self.post_message(self.GaveBack(text, replaces=True))

    @on(Spoken.OtherChosen)
    async def _turn_to(self, message: Spoken.OtherChosen) -> None:
        await self.turn_to(message.spoken.position, message.step)
        self.transcript.go_to(message.spoken.position)

    async def turn_to(self, position: int, step: int) -> None:
        """Show the answer so many places beside that one, to the same question."""
        if self.turn is None and self.dialogue.turn_to(position, step):
            await self.show()
            await self._say_moved()

    @on(Spoken.AgainChosen)
    async def _again(self, message: Spoken.AgainChosen) -> None:
        question = self.dialogue.question_before(message.spoken.position)
        if question is not None and self.turn is None:
            self.dialogue.rewind(question + 1)
            await self.show()
            await self.ask_again()
