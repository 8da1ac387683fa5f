"""Conversations from and for other programs, with their exact text."""

from __future__ import annotations

import json
from typing import Any

import pytest

from edgekv.errors import InvalidValue
from edgekv.history.dialogue import Dialogue
from edgekv.history.entries import Ending
from edgekv.history.export import to_json, to_markdown
from edgekv.history.imports import Imported, read_conversations
from edgekv.history.store import History
from tests.history.saying import EXACT, exchange, texts


def read(document: Any) -> tuple[Imported, ...]:
    return read_conversations(json.dumps(document).encode(), "export.json")


def path_of(imported: Imported) -> list[tuple[str, str]]:
    """Role and text of what was said, oldest first."""
    said: list[tuple[str, str]] = []
    at = imported.head
    while at is not None:
        message = imported.nodes[at].remark.message
        said.append((message.role, message.content))
        at = imported.nodes[at].parent
    return said[::-1]


def node(parent: str | None, role: str = "", *parts: object, **more: object) -> dict[str, Any]:
    """One of ChatGPT's, without the fields that do not matter here."""
    content = {"content_type": "text", "parts": list(parts), **more}
    message = {"author": {"role": role}, "content": content, "metadata": {}} if role else None
    return {"parent": parent, "children": [], "message": message}


CHATGPT = [
    {
        "title": "Newer",
        "mapping": {"a": node(None, "user", "b?"), "b": node("a", "assistant", "b!")},
        "current_node": "b",
    },
    {
        "title": "Trees",
        "current_node": "new",
        "mapping": {
            # As it happens, a child may stand before its parent.
            "new": node("hidden", "assistant", "new answer"),
            "root": node(None),
            "system": node("root", "system", ""),
            "q": node("system", "user", EXACT, {"content_type": "image_asset_pointer"}),
            "old": node("q", "assistant", "old answer"),
            "hidden": node("q"),
        },
    },
]
WEBUI = [
    {
        "title": "Web",
        "chat": {
            "history": {
                "currentId": "2",
                "messages": {
                    "1": {"parentId": None, "role": "user", "content": EXACT},
                    "2": {"parentId": "1", "role": "assistant", "content": "yes", "model": "m"},
                    "3": {"parentId": "1", "role": "assistant", "content": "no", "model": "n"},
                },
            }
        },
    }
]


def test_what_is_exported_as_json_is_imported_to_the_last_character(
    dialogue: Dialogue, history: History
) -> None:
    exchange(dialogue, EXACT, EXACT)
    exchange(dialogue, "more", "and more")
    written = to_json([("Title " + EXACT, dialogue.entries)])
    assert written.isascii()
    assert "\x1b" not in written
    (imported,) = read_conversations(written.encode(), "x")
    assert imported.title == "Title " + EXACT
    conversation = history.take_in(imported)
    again = history.open(conversation)
    assert [e.message for e in again.entries] == [e.message for e in dialogue.entries]
    assert [e.stats for e in again.entries] == [e.stats for e in dialogue.entries]
    assert [e.ending for e in again.entries] == [Ending.WHOLE] * 4


def test_markdown_has_every_message_as_it_is_under_who_said_it(dialogue: Dialogue) -> None:
    exchange(dialogue, "Why *this*?", "```\ncode\n```")
    written = to_markdown("Title", dialogue.entries)
    assert written.startswith("# Title\n\n## You · ")
    assert "\n\nWhy *this*?\n\n## model · " in written
    assert written.endswith("\n\n```\ncode\n```\n")


def test_a_chatgpt_export_is_read_with_the_branch_that_was_open_and_the_others_beside_it() -> None:
    trees, newer = read(CHATGPT)
    assert (trees.title, newer.title) == ("Trees", "Newer")
    question = EXACT + "\n\n[image_asset_pointer that is no text]"
    assert path_of(trees) == [("user", question), ("assistant", "new answer")]
    assert {n.remark.message.content for n in trees.nodes} == {
        question,
        "new answer",
        "old answer",
    }
    assert path_of(newer) == [("user", "b?"), ("assistant", "b!")]


def test_a_model_s_thoughts_are_no_words_to_the_user() -> None:
    thoughts = {"thoughts": [{"summary": "s", "content": "Hm."}], "content_type": "thoughts"}
    export = {"t": node(None, "assistant", **thoughts)}
    del export["t"]["message"]["content"]["parts"]
    (imported,) = read([{"title": "t", "mapping": export, "current_node": "t"}])
    message = imported.nodes[0].remark.message
    assert (message.content, message.thought) == ("", "Hm.")


def test_an_open_webui_export_is_read_with_its_branches(history: History) -> None:
    (imported,) = read(WEBUI)
    assert path_of(imported) == [("user", EXACT), ("assistant", "yes")]
    assert len(imported.nodes) == 3
    conversation = history.take_in(imported)
    assert texts(history, conversation) == [EXACT, "yes"]
    assert history.open(conversation).entries[1].model == "m"


def test_an_export_that_loops_is_read_to_an_end() -> None:
    loop = {"a": node("b", "user", "1"), "b": node("a", "assistant", "2")}
    (imported,) = read([{"title": "t", "mapping": loop, "current_node": "a"}])
    assert len(imported.nodes) == 2


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "not JSON"),
        (b"\xff\xfe", "not JSON"),
        (b"[" * 100_000, "not JSON"),
        (b"PK\x03\x04", "unpack it"),
        (b"[]", "no conversations"),
        (b'{"some": "thing"}', "no conversations"),
        (b'[{"title": "t", "mapping": {}}]', "no conversations"),
        (b'[{"title": "t", "mapping": {"a": 1}}]', "breaks off the form"),
        (b'[{"mapping": {"a": {"message": {"content": {"parts": ["x"]}}}}}]', "breaks off"),
        (b'{"format": "edgekv-conversations", "version": 99}', "newer EdgeKV"),
        (b'{"format": "edgekv-conversations", "version": 1}', "breaks off the form"),
        (
            b'{"format": "edgekv-conversations", "version": 1, "conversations": '
            b'[{"title": "t", "messages": [{"role": "nobody"}]}]}',
            "breaks off the form",
        ),
    ],
    ids=lambda value: None if isinstance(value, str) else repr(value[:30]),
)
def test_what_is_no_export_is_refused_in_one_sentence(content: bytes, reason: str) -> None:
    with pytest.raises(InvalidValue) as caught:
        read_conversations(content, "export.json")
    assert reason in str(caught.value)
    assert "\n" not in str(caught.value)
