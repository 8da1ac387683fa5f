"""The one place that makes text safe to draw.

Model answers, pasted text, file names and errors can carry control sequences that write to the
clipboard, rename the window or clear the screen. Everything drawn goes through `visible`; what
is kept and sent stays exact.
"""

from __future__ import annotations

_REPLACEMENT = "\N{REPLACEMENT CHARACTER}"

_SHOWN = {
    # U+2400 to U+241F are pictures of U+0000 to U+001F: ESC is drawn as one cell, ␛.
    **{code: chr(0x2400 + code) for code in range(0x20) if chr(code) not in "\n\t\r"},
    0x7F: "\N{SYMBOL FOR DELETE}",
    # C1: terminals take U+009B for ESC [ and U+009D for ESC ].
    **dict.fromkeys(range(0x80, 0xA0), _REPLACEMENT),
    # Overrides and isolates reorder what stands around them on the screen.
    **dict.fromkeys((*range(0x202A, 0x202F), *range(0x2066, 0x206A)), _REPLACEMENT),
    # Half characters, from file names that are not UTF-8; a terminal cannot be sent them.
    **dict.fromkeys(range(0xD800, 0xE000), _REPLACEMENT),
    0x2028: "\n",
    0x2029: "\n",
}
_DROPPED = (
    0x0D,
    0xAD,  # soft hyphen: no cell here, one cell in some terminals
    # What joins or varies emoji. Terminals disagree about the width of the result, and one that
    # disagrees with us shifts the rest of the line; apart, every one of them agrees.
    0x200D,
    0xFE0E,
    0xFE0F,
    *range(0x1F3FB, 0x1F400),
    # Marks without width that only turn the writing direction.
    0x061C,
    0x200E,
    0x200F,
)
_TABLE: dict[int, str | None] = {**_SHOWN, **dict.fromkeys(_DROPPED, None)}


def visible(text: str) -> str:
    """`text` with control characters shown as pictures or dropped, and widths all agree on.

    Line feeds and tabs stay. Works on any cut of a text: no character depends on its neighbours.
    """
    return text.translate(_TABLE)


def typeable(text: str) -> str:
    """`text` with control characters shown as pictures and nothing else changed.

    For the message box, whose text is sent as it stands there. Line ends become line feeds.
    """
    return text.replace("\r\n", "\n").replace("\r", "\n").translate(_SHOWN)
