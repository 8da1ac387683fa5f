"""Conversations that went on in memory, on their way back into their file."""

from __future__ import annotations

from edgekv.history.entries import ConversationId, Entry, EntryId, Opened
from edgekv.history.store import History


def write_back(
    memory: History, file: History, counterparts: dict[ConversationId, ConversationId]
) -> None:
    """Bring `file` up to what `memory` holds.

    `counterparts` are conversations of the file by what they are in memory; it gets those that
    began there. Raises `NotSaved`; nothing is written twice when it is called again.
    """
    for listed in reversed(memory.listed()):
        opened = memory.open(listed.id)
        if listed.id not in counterparts:
            counterparts[listed.id] = file.begin(opened.title)
        counterparts[listed.id] = _go_on(file, counterparts[listed.id], opened)


def _go_on(file: History, conversation: ConversationId, opened: Opened) -> ConversationId:
    """Say in the file what was said in memory since; where that ends up."""
    there = file.open(conversation)
    shared = _shared(file, there, opened)
    after: EntryId | None = shared[-1].id if shared else None
    head = there.head
    for entry in opened.entries[len(shared) :]:
        appended = file.append(conversation, after, entry, head)
        conversation, after, head = appended.conversation, appended.entry, appended.entry
    if opened.title != there.title:
        file.rename(conversation, opened.title)
    return conversation


def _shared(file: History, there: Opened, opened: Opened) -> list[Entry]:
    """What both begin with, as it is in the file; an answer that is half there is finished."""
    shared: list[Entry] = []
    for saved, entry in zip(there.entries, opened.entries, strict=False):
        if saved.ending is None and entry.message.content.startswith(saved.message.content):
            file.finish(saved.id, entry)
        elif saved.message != entry.message:
            break
        shared.append(saved)
    return shared
