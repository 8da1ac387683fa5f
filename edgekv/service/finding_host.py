"""Whoever is to hold the model for a terminal: a server that has it already, or a worker here."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlsplit

import httpx2
import msgspec

from edgekv.budget.wish import Wish
from edgekv.core.plan import MemoryPlan
from edgekv.errors import Unavailable
from edgekv.service.attach_frames import VERSION, Card
from edgekv.service.attached import AttachedWorker, keeps
from edgekv.service.conversation import NO_HABITS, ChatModel, Habits
from edgekv.service.discovery import Notice, servers_of
from edgekv.service.foreign_server import ForeignModel
from edgekv.service.report import Report

KEY_VARIABLE = "EDGEKV_API_KEY"
SECONDS_TO_ANSWER = 2.0
"""For a server on this very machine."""
SECONDS_TO_CONNECT = 10.0
"""For one anywhere."""


def running_server(path: str, wish: Wish, say: Callable[[str], None]) -> AttachedWorker | None:
    """A server on this machine that holds the model file as wished, if there is one.

    `say` hears why one that holds it is not taken.
    """
    for notice in servers_of(path):
        key = _key_of(notice)
        reason = _why_not(notice.url, key, wish)
        if reason is None:
            return AttachedWorker(notice.url, key, wish)
        say(f"not attached to {notice.url}, {reason}; the model is loaded here")
    return None


def server_at(url: str, wish: Wish, habits: Habits = NO_HABITS) -> ChatModel:
    """The model of the server that a user named: an EdgeKV's, or any OpenAI-style one's.

    Raises `Unavailable` for what is no address or does not answer, and where options ask for
    something that a server that is not EdgeKV cannot be seen to keep.
    """
    parts = urlsplit(url)
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise Unavailable(
            f"'{url}' is no address of a server; write it like http://127.0.0.1:8642."
        )
    key, root = os.environ.get(KEY_VARIABLE), f"{parts.scheme}://{parts.netloc}"
    if _is_edgekv(root):
        return ChatModel(AttachedWorker(root, key, wish), habits=habits)
    if wish != Wish():
        raise Unavailable(
            f"The server at {root} is not EdgeKV, so what it plans cannot be seen; "
            "leave the options about memory out."
        )
    return ForeignModel(root + (parts.path.rstrip("/") or "/v1"), key, habits)


def _is_edgekv(root: str) -> bool:
    """Nobody else answers there; with or without the right key it is not a 404."""
    try:
        return httpx2.get(f"{root}/attach", timeout=SECONDS_TO_CONNECT).status_code != 404
    except httpx2.HTTPError as error:
        raise Unavailable(
            f"The server at {root} does not answer ({error}); check the address."
        ) from None


def _key_of(notice: Notice) -> str | None:
    if not notice.has_key:
        return None
    if notice.key_file is not None:
        try:
            return Path(notice.key_file).read_text("ascii").strip()
        except (OSError, UnicodeDecodeError):
            return None
    return os.environ.get(KEY_VARIABLE)


def _why_not(url: str, key: str | None, wish: Wish) -> str | None:
    """None if a terminal may attach."""
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    try:
        with httpx2.Client(
            base_url=url, headers=headers, timeout=SECONDS_TO_ANSWER, trust_env=False
        ) as client:
            card = client.get("/attach")
            if card.status_code == 401:
                return f"which wants a key; set {KEY_VARIABLE}"
            if card.status_code != 200:
                return "which is not ready"
            version = msgspec.json.decode(card.content, type=Card).version
            report = msgspec.json.decode(client.get("/engine").content, type=Report)
    except httpx2.HTTPError:
        return "which does not answer"
    except msgspec.DecodeError:
        return "which is another version"
    if version != VERSION:
        return "which is another version"
    plan = report.plan
    if plan is None or not keeps(plan.choice, wish) or _has_adapter(plan):
        return "which was started with other options"
    return None


def _has_adapter(plan: MemoryPlan) -> bool:
    """A model that an adapter changed is not the one that was asked for."""
    return any(line.label == "adapter" for line in plan.lines)
