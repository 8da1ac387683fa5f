"""Where prompts of each family will part from others, told from their control tokens."""

from __future__ import annotations

import re

import pytest

from edgekv.core.request import Token
from edgekv.engine.turns import branches

NUMBERS: dict[str, int] = {}


def parts(prompt: str) -> list[str]:
    """Control tokens as wholes, everything else letter by letter."""
    return re.findall(r"<[^>]*>|\[[^\]]*\]|.", prompt)


def is_control(token: Token) -> bool:
    return len(list(NUMBERS)[token]) > 1


def marked(prompt: str) -> str:
    """The prompt with a bar at each branch."""
    pieces = parts(prompt)
    tokens = [Token(NUMBERS.setdefault(piece, len(NUMBERS))) for piece in pieces]
    for at in reversed(branches(tokens, is_control)):
        pieces.insert(at, "|")
    return "".join(pieces)


@pytest.mark.parametrize(
    "expected",
    [
        "<im_start>sys<im_end>|<im_start>hi<im_end>|<im_start>bot",
        "<im_start>sys<im_end>|<im_start>hi<im_end><im_start>yo<im_end><im_start>?<im_end>|<im_start>b",
        "<im_start>hi<im_end>|<im_start>bot",
        "<bos><head>sys<end>kind<eot>|<head>user<end>hi<eot>|<head>bot<end>",
        "<bos><turn>user hi<end>|<turn>model",
        "<s>[INST]hi[/INST]yo</s>|[INST]?[/INST]",
        "<s>[INST]hi|[/INST]",
        "<s>once upo|n",
        "once upon a tim|e",
        "x|y",
    ],
)
def test_a_prompt_parts_from_others_behind_its_first_turn_and_before_the_answer(
    expected: str,
) -> None:
    assert marked(expected.replace("|", "")) == expected
