"""Conversations that other programs, or EdgeKV itself, have written to a file.

The formats are those of ChatGPT's "Export data" (conversations.json) and Open WebUI's "Export
chats". Both hold trees: a question that was asked again, or an answer that was written again, is
a branch. The branch that was open last becomes the conversation; the others are kept beside it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from edgekv.errors import InvalidValue
from edgekv.history.entries import Ending, Remark
from edgekv.history.export import FORMAT, VERSION
from edgekv.service.conversation import AnswerStats
from edgekv.service.messages import Message

MOST_BYTES = 512 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Branching:
    """A remark, and the place of the one before it."""

    remark: Remark
    parent: int | None


@dataclass(frozen=True, slots=True)
class Imported:
    """`nodes` hold every branch, parents first; the conversation is the path to `head`."""

    title: str
    nodes: tuple[Branching, ...]
    head: int | None


def read_conversations(content: bytes, name: str) -> tuple[Imported, ...]:
    """What is in a file called `name`, the oldest first.

    Raises `InvalidValue` if it is not one of the formats.
    """
    if len(content) > MOST_BYTES:
        raise InvalidValue("file", f"'{name}' has more than {MOST_BYTES // 1024**2} MiB.")
    if content[:2] == b"PK":
        raise InvalidValue("file", f"'{name}' is an archive; unpack it and import the JSON in it.")
    try:
        document = json.loads(content)
    except (ValueError, RecursionError):
        raise InvalidValue("file", f"'{name}' is not JSON.") from None
    try:
        conversations = tuple(_conversations(document))
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise InvalidValue(
            "file", f"'{name}' breaks off the form of its kind: {type(error).__name__} {error}."
        ) from None
    if not conversations:
        raise InvalidValue(
            "file",
            f"'{name}' holds no conversations of EdgeKV, ChatGPT (conversations.json) or "
            "Open WebUI (Export chats).",
        )
    return conversations


def _conversations(document: Any) -> Iterator[Imported]:
    if isinstance(document, dict) and document.get("format") == FORMAT:
        if document["version"] > VERSION:
            raise InvalidValue("file", "The file is of a newer EdgeKV; update to import it.")
        yield from map(_ours, document["conversations"])
        return
    written = document if isinstance(document, list) else [document]
    found = [_foreign(one) for one in written if isinstance(one, dict)]
    # Both programs list the newest first.
    yield from (one for one in reversed(found) if one is not None and one.nodes)


def _foreign(written: dict[str, Any]) -> Imported | None:
    if isinstance(written.get("mapping"), dict):
        return _chatgpt(written)
    chat = written.get("chat", written)
    if isinstance(chat, dict) and isinstance(chat.get("history"), dict):
        return _open_webui(written.get("title") or chat.get("title") or "", chat)
    return None


# --- EdgeKV ---


def _ours(written: dict[str, Any]) -> Imported:
    nodes = [
        Branching(_our_remark(message), number - 1 if number else None)
        for number, message in enumerate(written["messages"])
    ]
    return Imported(written["title"], tuple(nodes), len(nodes) - 1 if nodes else None)


def _our_remark(written: dict[str, Any]) -> Remark:
    fields = {name: written[name] for name in Message.__struct_fields__ if name in written}
    stats = written.get("stats")
    return Remark(
        msgspec.convert(fields, Message),
        written.get("model", ""),
        Ending(written.get("ending", Ending.BROKEN_OFF)),
        None if stats is None else msgspec.convert(stats, AnswerStats),
    )


# --- trees of other programs ---


@dataclass(frozen=True, slots=True)
class _Node:
    parent: str | None
    remark: Remark | None
    """None for what was never shown: the conversation goes through it."""


def _tree(title: str, nodes: Mapping[str, _Node], head: str | None) -> Imported:
    places: dict[str, int | None] = {}
    flat: list[Branching] = []
    for name in _parents_first(nodes):
        node = nodes[name]
        parent = places.get(node.parent) if node.parent is not None else None
        if node.remark is None:
            places[name] = parent
        else:
            places[name] = len(flat)
            flat.append(Branching(node.remark, parent))
    end = places.get(head) if head is not None else None
    return Imported(title, tuple(flat), end if end is not None else len(flat) - 1)


def _parents_first(nodes: Mapping[str, _Node]) -> list[str]:
    """Every name once. A loop, which no program writes, is entered where it is met first."""
    ordered: dict[str, None] = {}
    for name in nodes:
        path: list[str] = []
        at: str | None = name
        while at is not None and at in nodes and at not in ordered and at not in path:
            path.append(at)
            at = nodes[at].parent
        ordered.update(dict.fromkeys(reversed(path)))
    return list(ordered)


# --- ChatGPT ---


def _chatgpt(written: dict[str, Any]) -> Imported:
    nodes = {
        name: _Node(node.get("parent"), _chatgpt_remark(node.get("message")))
        for name, node in written["mapping"].items()
    }
    return _tree(written.get("title") or "", nodes, written.get("current_node"))


def _chatgpt_remark(message: dict[str, Any] | None) -> Remark | None:
    if message is None:
        return None
    metadata = message.get("metadata") or {}
    content = message.get("content") or {}
    is_thought = content.get("content_type") == "thoughts"
    text = _chatgpt_text(content)
    if not text or metadata.get("is_visually_hidden_from_conversation"):
        return None
    role = message["author"]["role"]
    return _remark(
        role, "" if is_thought else text, metadata.get("model_slug") or "", text * is_thought
    )


def _chatgpt_text(content: Mapping[str, Any]) -> str:
    if "parts" in content:
        return "\n\n".join(filter(None, map(_chatgpt_part, content["parts"])))
    thoughts = content.get("thoughts")
    if thoughts is not None:
        return "\n\n".join(thought.get("content") or "" for thought in thoughts)
    return content.get("text") or content.get("result") or ""


def _chatgpt_part(part: str | dict[str, Any]) -> str:
    if isinstance(part, str):
        return part
    return part.get("text") or f"[{part.get('content_type', 'something')} that is no text]"


# --- Open WebUI ---


def _open_webui(title: str, chat: dict[str, Any]) -> Imported:
    history = chat["history"]
    nodes = {
        name: _Node(
            message.get("parentId"),
            _remark(
                message["role"],
                message.get("content") or "",
                message.get("model") or "",
                message.get("reasoning_content") or "",
            ),
        )
        for name, message in history["messages"].items()
    }
    return _tree(title, nodes, history.get("currentId"))


def _remark(role: str, content: str, model: str = "", thought: str = "") -> Remark:
    message = msgspec.convert({"role": role, "content": content, "thought": thought}, Message)
    return Remark(message, model if role == "assistant" else "")
