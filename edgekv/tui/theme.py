"""Colours: EdgeKV's own themes, and what every theme needs beyond Textual's own variables."""

from __future__ import annotations

from rich.style import Style
from rich.theme import Theme as RichTheme
from textual.color import Color
from textual.theme import Theme

DARK = Theme(
    name="edgekv-dark",
    primary="#6cb6a5",
    secondary="#7d9cc0",
    accent="#d3a76a",
    warning="#d9a85b",
    error="#d8707a",
    success="#8fbf7f",
    foreground="#d3d9de",
    background="#111519",
    surface="#171c21",
    panel="#1e242b",
    dark=True,
    variables={"footer-key-foreground": "#6cb6a5", "footer-background": "#111519"},
)
LIGHT = Theme(
    name="edgekv-light",
    primary="#1f7a68",
    secondary="#3f6593",
    accent="#8f5f14",
    warning="#94620a",
    error="#b3364a",
    success="#3c7a2d",
    foreground="#24292e",
    background="#fafaf7",
    surface="#f1f1ec",
    panel="#e6e6df",
    dark=False,
    variables={"footer-key-foreground": "#1f7a68", "footer-background": "#fafaf7"},
)
CONTRAST = Theme(
    name="edgekv-contrast",
    primary="#ffd400",
    secondary="#00e5ff",
    accent="#ffd400",
    warning="#ffb000",
    error="#ff6b6b",
    success="#5dff5d",
    foreground="#ffffff",
    background="#000000",
    surface="#000000",
    panel="#1a1a1a",
    dark=True,
    variables={
        "footer-key-foreground": "#ffd400",
        "footer-background": "#000000",
        "line": "#b0b0b0",
        "quiet": "#ffffff",
        "memory-kept": "#b0b0b0",
        "memory-free": "#808080",
    },
)
OWN_THEMES = (DARK, LIGHT, CONTRAST)
TERMINAL_DARK = "ansi-dark"
"""Textual's theme made of the terminal's own sixteen colours."""


NUM_OWNER_COLOURS = 6
"""Running sequences take turns with so many colours; their marks tell them apart."""
_OWNERS_ON_DARK = ("#6cb6a5", "#7d9cc0", "#c08ab5", "#9db36b", "#c98f6b", "#8f8fd0")
_OWNERS_ON_LIGHT = ("#1f7a68", "#3f6593", "#8a3f7c", "#56701d", "#8f4f20", "#4a4aa0")
_OWNERS_OF_TERMINAL = (
    "ansi_green", "ansi_blue", "ansi_magenta", "ansi_yellow", "ansi_red", "ansi_bright_blue",
)  # fmt: skip


def extra_variables(theme: Theme) -> dict[str, str]:
    """Values for the memory bar's parts, and lines and quiet words that every theme shows well."""
    if theme.ansi:
        return {
            "memory-weights": "ansi_blue",
            "memory-compute": "ansi_magenta",
            "memory-used": "ansi_green",
            "memory-shared": "ansi_cyan",
            "memory-kept": "ansi_white" if theme.dark else "ansi_bright_black",
            "memory-free": "ansi_bright_black" if theme.dark else "ansi_white",
            **_owners(_OWNERS_OF_TERMINAL),
            "line": "ansi_bright_black" if theme.dark else "ansi_white",
            "quiet": "ansi_default",
        }
    return {
        "memory-weights": "#6f8fb8" if theme.dark else "#4a6fa3",
        "memory-compute": "#9a86bd" if theme.dark else "#7a5fa8",
        "memory-used": "#6cb6a5" if theme.dark else "#1f7a68",
        "memory-shared": "#d3a76a" if theme.dark else "#b07a1e",
        "memory-kept": "#6f7a84" if theme.dark else "#9a9a92",
        "memory-free": "#39424b" if theme.dark else "#cfcfc6",
        **_owners(_OWNERS_ON_DARK if theme.dark else _OWNERS_ON_LIGHT),
        "line": "#2b333b" if theme.dark else "#d8d8d0",
        "quiet": "#8a949d" if theme.dark else "#686d72",
    }


def _owners(colours: tuple[str, ...]) -> dict[str, str]:
    return {f"owner-{number}": colour for number, colour in enumerate(colours)}


def markdown_styles(variables: dict[str, str], is_ansi: bool) -> RichTheme:
    """Rich's Markdown in the colours of a Textual theme, given its variables."""

    def colour(name: str) -> Style:
        return Style(color=Color.parse(variables[name]).rich_color)

    quiet = Style(dim=True) if is_ansi else colour("quiet")
    code = Style() if is_ansi else Style(bgcolor=colour("surface").color)
    heading = colour("primary") + Style(bold=True)
    return RichTheme(
        {
            **{f"markdown.h{level}": heading for level in range(1, 7)},
            "markdown.strong": Style(bold=True),
            "markdown.em": Style(italic=True),
            "markdown.s": Style(strike=True),
            "markdown.code": colour("accent"),
            "markdown.code_block": code,
            "markdown.block_quote": quiet,
            "markdown.item.bullet": colour("primary"),
            "markdown.item.number": colour("primary"),
            "markdown.hr": colour("line"),
            "markdown.link": Style(underline=True),
            "markdown.link_url": quiet,
            "markdown.table.border": colour("line"),
            "markdown.table.header": Style(bold=True),
        }
    )
