"""What the texts of a trial are made of: prose, and facts that can be hidden in it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

NUM_NEEDLES = 16
"""Facts in one text; all have the same form, so each distracts from the others."""


@dataclass(frozen=True, slots=True)
class Needle:
    item: str
    code: str
    depth: float
    """Where in the text it is: 0 at its beginning, 1 at its end."""


@dataclass(frozen=True, slots=True)
class Form:
    """How a fact is told and asked for."""

    fact: str
    """What is known of every item, like `pass code`."""
    tool: str
    """The call that needs the fact, with the names of its two arguments."""
    named: str
    asked: str

    def sentence(self, needle: Needle) -> str:
        return f"The {self.fact} of the {needle.item} is {needle.code}."

    def question(self, needle: Needle) -> tuple[str, str]:
        """What follows the text, and the answer that is right."""
        what = f"{self.fact} of the {needle.item} is"
        asked = f"\n\nQuestion: What is the {self.fact} of the {needle.item}?\nAnswer: The {what}"
        return asked, f" {needle.code}."

    def tool_call(self, shown: Needle, needle: Needle) -> tuple[str, str]:
        """The same as a tool call whose form `shown` has. All but the value is given, for where a
        grammar holds the answer to a form, that is what the model still says.
        """
        asked = f"\n\nTool call for the {shown.item}: {self._call(shown)} {shown.code}}}}}\n"
        return (
            f"{asked}Tool call for the {needle.item}: {self._call(needle)}",
            f" {needle.code}}}}}",
        )

    def _call(self, needle: Needle) -> str:
        arguments = f'{{"{self.named}": "{needle.item}", "{self.asked}":'
        return f'{{"name": "{self.tool}", "arguments": {arguments}'


@dataclass(frozen=True, slots=True)
class Material:
    """Of every text as many items are hidden as there are adjectives, each with a thing."""

    name: str
    """Fit for a file name; no two materials share one."""
    sentences: tuple[str, ...]
    adjectives: tuple[str, ...]
    things: tuple[str, ...]
    form: Form
    spread: float = 0.0
    """Facts lie in as many equal stretches of the text: this part of each around its middle."""

    def __post_init__(self) -> None:
        if len(self.adjectives) != NUM_NEEDLES or len(self.things) != NUM_NEEDLES:
            raise ValueError(f"{NUM_NEEDLES} facts need as many adjectives and things")


def sentences_of(text: str) -> tuple[str, ...]:
    return tuple(re.split(r"(?<=[.;:]) ", " ".join(text.split())))


@cache
def constitution() -> Material:
    """The Constitution of the United States, which is in the public domain, and pass codes."""
    text = (files("edgekv.quality") / "prose.txt").read_text(encoding="utf-8")
    return Material("constitution", sentences_of(text), _ADJECTIVES, _THINGS, _PASS_CODES)


_PASS_CODES = Form("pass code", "open", "item", "code")
_ADJECTIVES = (
    "red", "old", "broken", "silver", "quiet", "narrow", "heavy", "striped",
    "wooden", "frozen", "hollow", "distant", "painted", "golden", "crooked", "round",
)  # fmt: skip
_THINGS = (
    "lantern", "bridge", "garden", "tower", "ship", "clock", "river", "castle",
    "mirror", "wagon", "island", "piano", "barrel", "candle", "window", "anchor",
)  # fmt: skip
