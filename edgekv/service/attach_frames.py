"""What a terminal app and a server of this very program say to each other, as JSON.

Between versions this may change without notice, unlike the rest of what a server answers;
`VERSION` tells them apart.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

import msgspec
from msgspec import Meta

from edgekv.config.settings import SamplingSettings
from edgekv.core.events import StreamEvent
from edgekv.core.frames import Submit
from edgekv.core.plan import ModelFacts
from edgekv.core.request import Priority, RequestId, Segment, TextPrompt, Token

VERSION = 1
ID_PREFIX = "attached-"
"""Ids of attached terminals' requests begin so; nobody else's do."""


class Card(msgspec.Struct, frozen=True):
    """What is served, and all that is needed to write prompts for it."""

    version: int
    name: str
    facts: ModelFacts


class Split(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Ask for the tokens of a prompt."""

    segments: tuple[Segment, ...]


class SplitUp(msgspec.Struct, frozen=True):
    tokens: tuple[Token, ...]


class Ask(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Ask for one answer. Its events come as server-sent ones, with `ID_PREFIX` before the id."""

    request_id: Annotated[str, Meta(pattern="^[0-9a-f]{32}$")]
    segments: tuple[Segment, ...]
    max_tokens: Annotated[int, Meta(ge=1, lt=2**31)] | None = None
    sampling: SamplingSettings = SamplingSettings()
    shows_controls: bool = False

    @classmethod
    def of(cls, submit: Submit) -> Ask:
        """What a chat submits; it uses nothing else of a `Submit`."""
        assert isinstance(submit.prompt, TextPrompt)
        assert submit.sampling.grammar is None
        params = msgspec.to_builtins(submit.sampling)
        names = SamplingSettings.__struct_fields__
        return cls(
            request_id=submit.request_id,
            segments=submit.prompt.segments,
            max_tokens=submit.max_tokens,
            sampling=SamplingSettings(**{name: params[name] for name in names}),
            shows_controls=submit.shows_controls,
        )

    def submit(self) -> Submit:
        return Submit(
            request_id=RequestId(ID_PREFIX + self.request_id),
            prompt=TextPrompt(self.segments),
            max_tokens=self.max_tokens,
            sampling=self.sampling.params(),
            priority=Priority.INTERACTIVE,
            shows_controls=self.shows_controls,
        )


decode_event: Callable[[bytes], StreamEvent] = msgspec.json.Decoder(StreamEvent).decode
