"""One open conversation: what was said, kept as it is said.

dialogue = Dialogue(archive)
dialogue.ask("Why?")
dialogue.begin_answer("model")
dialogue.grow(part)                 # for each part of the answer
dialogue.end_answer(Ending.WHOLE)
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace

from edgekv.errors import NotSaved
from edgekv.history.archive import Archive
from edgekv.history.drafts import AnswerDraft
from edgekv.history.entries import ConversationId, Ending, Entry, EntryId, Remark
from edgekv.service.conversation import AnswerPart, Conversation
from edgekv.service.messages import Message

SECONDS_BETWEEN_WRITES = 0.25
"""What a killed program loses of an answer is what came since the last write."""
LONGEST_TITLE = 60


class Dialogue:
    """Never fails: what cannot be saved goes on in memory, and the archive says why.

    With each question and each answer's end it is tried again.
    """

    def __init__(self, archive: Archive, clock: Callable[[], float] = time.monotonic) -> None:
        self._archive, self._clock = archive, clock
        self.new()

    def new(self, system: str = "") -> None:
        """Leave this conversation for an empty one."""
        self.id: ConversationId | None = None
        self.title = ""
        self.entries: tuple[Entry, ...] = ()
        self._system = system
        self._head: EntryId | None = None
        self._draft: AnswerDraft | None = None
        self._before_question: tuple[tuple[Entry, ...], EntryId | None] | None = None
        self.moved_on = False
        """Another program went on with this conversation, so this is a copy from there on."""

    def open(self, conversation: ConversationId) -> None:
        """Raises `KeyError` if there is none. What cannot be read is not opened."""
        try:
            opened = self._archive.history.open(conversation)
        except NotSaved as error:
            self._move_to_memory(error)
            return
        self.new()
        self.id, self.title, self.entries = opened.id, opened.title, opened.entries
        self._head = opened.head

    # --- what was said ---

    @property
    def conversation(self) -> Conversation:
        """Without an answer that is being written."""
        return Conversation(tuple(entry.message for entry in self._settled()))

    @property
    def system(self) -> str:
        """What the model is told before everything else."""
        first = self.entries[0].message if self.entries else None
        return first.content if first and first.role == "system" else self._system

    @property
    def last_answer(self) -> str | None:
        return self.conversation.last_answer

    @property
    def num_held(self) -> int:
        """Tokens it took up when its last answer ended; 0 if that is not known."""
        for entry in reversed(self.entries):
            if entry.stats is not None:
                return entry.stats.num_held
        return 0

    def question_before(self, position: int | None = None) -> int | None:
        """The place of the last question up to that message, of all of them if not given."""
        entries = self.entries if position is None else self.entries[: position + 1]
        return max((n for n, e in enumerate(entries) if e.message.role == "user"), default=None)

    # --- a question and its answer ---

    def ask(self, question: str) -> None:
        self._come_back()
        self._before_question = (self.entries, self._head)
        if self.id is None:
            self.title = title_of(question)
        if not self.entries and self._system:
            self._append(Remark(Message("system", self._system)))
        self._append(Remark(Message("user", question)))

    def begin_answer(self, model: str) -> None:
        """The next answer to the last question; one that is there already makes room for it."""
        replaced = self.entries
        while self.entries and self.entries[-1].message.role == "assistant":
            self.entries = self.entries[:-1]
        self._draft = AnswerDraft(replaced, self._head, self._clock())
        self._append(Remark(Message("assistant"), model, ending=None))

    def grow(self, part: AnswerPart) -> None:
        assert self._draft is not None
        self._draft.add(part)
        if self._clock() - self._draft.last_write >= SECONDS_BETWEEN_WRITES:
            self._write_piece()

    @property
    def answer_is_empty(self) -> bool:
        """Whether nothing came of the answer that is being written."""
        return self._draft is not None and self._draft.is_empty

    def end_answer(self, ending: Ending) -> None:
        """The answer is what there is of it by now."""
        draft, self._draft = self._draft, None
        assert draft is not None
        self._before_question = None
        last = replace(self.entries[-1], message=draft.message, ending=ending, stats=draft.stats)
        self.entries = (*self.entries[:-1], last)
        self._saving(self._finish_last)
        self._come_back()

    def withdraw_answer(self) -> None:
        """It never began: all is as it was before it was asked for."""
        draft, self._draft = self._draft, None
        assert draft is not None
        self._withdraw_last(draft.replaced, draft.head)

    def withdraw_question(self) -> None:
        """The last question, which has no answer, was never asked: all is as it was before."""
        if self._before_question is not None:
            before, self._before_question = self._before_question, None
            self._withdraw_last(*before)

    # --- other ways to go on ---

    def rewind(self, position: int) -> str:
        """Go back to before the message at `position`; returns its text.

        What comes after it stays in the history until something else is said instead.
        """
        text = self.entries[position].message.content
        self.entries = self.entries[:position]
        return text

    def turn_to(self, position: int, step: int) -> bool:
        """Go on from the answer so many places beside that at `position`, to the same question.

        What followed it follows it again. False, and nothing changes, if there is no such answer.
        """
        other = self.entries[position].beside(step)
        if other is None or self.id is None:
            return False
        try:
            conversation = self._archive.history.turn_to(self.id, other, self._head)
            has_moved = conversation != self.id
            self.open(conversation)
        except NotSaved as error:
            self._move_to_memory(error)
            return False
        self.moved_on = has_moved
        return True

    def fork(self, position: int) -> None:
        """Leave this conversation for a new one that shares all up to that message."""
        title, kept = self.title, self.entries[: position + 1]
        self.new()
        self.title, self.entries, self._head = title, kept, kept[-1].id
        self._saving(self._begin)

    def start_from(self, remarks: Sequence[Remark], title: str) -> None:
        """Leave this conversation for a new one that begins with these remarks."""
        self.new()
        self.title = title
        for remark in remarks:
            self._append(remark)

    def set_system(self, text: str) -> None:
        """Tell the model something else before everything else; nothing if `text` is empty."""
        rest = [entry for entry in self.entries if entry.message.role != "system"]
        self._system, self.entries = text, ()
        if rest and text:
            self._append(Remark(Message("system", text)))
        for entry in rest:
            self._append(entry)

    def rename(self, title: str) -> None:
        self.title = title
        self._saving(self._write_title)

    def close(self, *, orderly: bool) -> None:
        """Write what there is of an answer. Unless `orderly` it will count as broken off."""
        if self._draft is not None and orderly:
            self.end_answer(Ending.STOPPED)
        elif self._draft is not None:
            self._write_piece()

    # --- saving ---

    def _settled(self) -> tuple[Entry, ...]:
        is_growing = self.entries and self.entries[-1].ending is None
        return self.entries[:-1] if is_growing else self.entries

    def _append(self, remark: Remark) -> None:
        try:
            self._write(remark)
        except NotSaved as error:
            self._move_to_memory(error)
            self._write(remark)

    def _write(self, remark: Remark) -> None:
        if self.id is None:
            self._begin()
        assert self.id is not None
        after = self.entries[-1].id if self.entries else None
        appended = self._archive.history.append(self.id, after, remark, self._head)
        self.moved_on |= appended.conversation != self.id
        self.id, self._head = appended.conversation, appended.entry
        self.entries = (*self.entries, _entry(appended.entry, remark))

    def _begin(self) -> None:
        self.id = self._archive.history.begin(self.title, self._head)

    def _finish_last(self) -> None:
        last, conversation = self.entries[-1], self.id
        assert conversation is not None
        self._archive.history.finish(last.id, last)
        told = self._archive.history.answers.told(conversation, [last])
        self.entries = (*self.entries[:-1], *told)

    def _write_title(self) -> None:
        if self.id is not None:
            self._archive.history.rename(self.id, self.title)

    def _write_piece(self) -> None:
        assert self._draft is not None
        said, thought = self._draft.take_unwritten(self._clock())
        entry, stats = self.entries[-1].id, self._draft.stats
        if said or thought:
            self._saving(lambda: self._archive.history.grow(entry, said, thought, stats))

    def _withdraw_last(self, before: tuple[Entry, ...], head: EntryId | None) -> None:
        gone, conversation = self.entries[-1].id, self.id
        self.entries, self._head = before, head
        assert conversation is not None
        self._saving(lambda: self._archive.history.withdraw(conversation, gone, head))

    def _saving(self, write: Callable[[], None]) -> None:
        """`write` what is in this value by now, or all of it where that can be kept."""
        try:
            write()
        except NotSaved as error:
            self._move_to_memory(error)

    def _come_back(self) -> None:
        """Go on in the file, if it can be written again."""
        counterparts = self._archive.come_back()
        if self.id is not None and self.id in counterparts:
            self.open(counterparts[self.id])

    def _move_to_memory(self, error: NotSaved) -> None:
        """The same conversation in an empty history that ends with the program."""
        in_file = self.id if self._archive.is_saved else None
        self._archive.go_on_in_memory(error)
        entries, self.entries, self.id, self._head = self.entries, (), None, None
        for entry in entries:
            self._write(entry)
        if self.id is not None and in_file is not None:
            self._archive.stands_for(self.id, in_file)
        settled = self._settled()
        if self._draft is not None:
            self._draft.rest_on(settled)
        if self._before_question is not None:
            before = settled[:-1]
            self._before_question = before, before[-1].id if before else None


def _entry(number: EntryId, remark: Remark) -> Entry:
    return Entry(
        remark.message, remark.model, remark.ending, remark.stats, id=number, created=time.time()
    )


def title_of(question: str) -> str:
    """What a conversation is called until somebody names it: the first words that were said."""
    words = " ".join(question.split())
    return words if len(words) <= LONGEST_TITLE else f"{words[: LONGEST_TITLE - 1].rstrip()}…"
