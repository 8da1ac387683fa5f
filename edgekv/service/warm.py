"""Prompts that the user wants computed at the start and kept: files, as this model reads them."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import takewhile
from pathlib import Path

import msgspec

from edgekv.core.frames import Pin
from edgekv.core.plan import ModelFacts
from edgekv.core.request import Segment, TextPrompt
from edgekv.errors import InvalidValue, Unavailable
from edgekv.service.chat import ChatFormat
from edgekv.service.engine_client import EngineClient
from edgekv.service.messages import Message, Role

_log = logging.getLogger(__name__)

EITHER, OR = Message("user", "0"), Message("user", "?")
"""Two ways to go on: what prompts with either have in common, all that go on have in common."""


@dataclass(frozen=True, slots=True)
class WarmPrompt:
    """A text as it is, or messages that the model's template is to write."""

    name: str
    text: str = ""
    messages: tuple[Message, ...] = ()


class _Said(msgspec.Struct, forbid_unknown_fields=True):
    role: Role
    content: str


def read_warm(path: Path) -> WarmPrompt:
    """A file of messages if its name ends in .json, else a text.

    Raises `InvalidValue` for one that is neither.
    """
    try:
        text = path.read_bytes().decode("utf-8")
    except OSError as error:
        raise _unreadable(path, error.strerror or str(error)) from None
    except UnicodeDecodeError:
        raise _unreadable(path, "it is not UTF-8 text") from None
    if not text:
        raise _unreadable(path, "it is empty")
    if path.suffix.lower() != ".json":
        return WarmPrompt(str(path), text=text)
    try:
        said = msgspec.json.decode(text, type=list[_Said])
    except msgspec.DecodeError as error:
        raise _unreadable(
            path, f'it is not a list of messages like {{"role": "system", "content": "…"}}: {error}'
        ) from None
    return WarmPrompt(str(path), messages=tuple(Message(s.role, s.content) for s in said))


async def as_read_by(facts: ModelFacts, warm: Sequence[WarmPrompt]) -> dict[str, TextPrompt]:
    """The prompts by name. Raises `InvalidValue` for messages that the template refuses."""
    form = ChatFormat(facts)
    try:
        return {prompt.name: TextPrompt(await _segments(prompt, form)) for prompt in warm}
    finally:
        await form.close()


async def pin(
    client: EngineClient, prompts: Mapping[str, TextPrompt], *, is_first_time: bool
) -> None:
    """Have an engine keep prompts, and the first time compute them.

    Raises `InvalidValue` or `Unavailable` for one that cannot be kept. Later that is no reason to
    do without an engine: it may have less memory than the first.
    """
    for name, prompt in prompts.items():
        ask = partial(Pin, name=name, prompt=prompt, compute=is_first_time)
        try:
            await client.call(ask)
        except (InvalidValue, Unavailable) as refusal:
            if is_first_time:
                raise
            _log.warning("A prompt is pinned no longer: %s", refusal)


async def _segments(warm: WarmPrompt, form: ChatFormat) -> tuple[Segment, ...]:
    if not warm.messages:
        return (Segment(warm.text, control=True),)
    try:
        if warm.messages[-1].role == "user":
            return (await form.prompt(warm.messages)).segments
        either, other = [(await form.prompt([*warm.messages, m])).segments for m in (EITHER, OR)]
    except InvalidValue as error:
        raise InvalidValue("warm", f"The prompt '{warm.name}' cannot be pinned: {error}") from None
    return _common(either, other)


def _common(one: Sequence[Segment], other: Sequence[Segment]) -> tuple[Segment, ...]:
    """The segments that both begin with, and what the next two have in common."""
    num_same = _num_common(one, other)
    if num_same == min(len(one), len(other)):
        return tuple(one[:num_same])
    a, b = one[num_same], other[num_same]
    length = _num_common(a.text, b.text) if a.control == b.control else 0
    return (*one[:num_same], Segment(a.text[:length], a.control))


def _num_common(one: Sequence[object], other: Sequence[object]) -> int:
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False)))


def _unreadable(path: Path, why: str) -> InvalidValue:
    return InvalidValue("warm", f"{path} cannot be pinned: {why}.")
