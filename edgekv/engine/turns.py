"""Where the turns of a prompt begin, told from its control tokens alone.

    <|im_start|>system⏎ … <|im_end|>⏎<|im_start|>user⏎ … <|im_end|>⏎<|im_start|>assistant⏎
    0                                t                              t

Every family of models opens its turns with one control token, whatever that is called: the one
that comes most often, and of those that come equally often the first.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

from edgekv.core.request import Token


def branches(tokens: Sequence[Token], is_control: Callable[[Token], bool]) -> tuple[int, ...]:
    """Positions at which other prompts will probably part from this one: the end of the first
    turn, where another question may follow the same instructions, and the beginning of the answer,
    which may be asked for again. Of a text without turns its last token.
    """
    control = [at for at, token in enumerate(tokens) if is_control(token)]
    openers = Counter(tokens[at] for at in control).most_common(1)
    starts = [at for at in control if tokens[at] == openers[0][0]]
    return tuple(sorted({*starts[1:2], *starts[-1:]} - {0})) or (len(tokens) - 1,)
