"""Every key of the terminal app, in the order the footer shows them."""

from __future__ import annotations

from textual.binding import Binding, BindingType

PROMPT_KEYS: list[BindingType] = [
    Binding("enter", "send", "Send", id="prompt.send", tooltip="Send the message"),
    Binding(
        "ctrl+j,shift+enter,alt+enter",
        "new_line",
        "New line",
        key_display="^j",
        id="prompt.new_line",
        tooltip="Begin a new line; Shift+Enter does the same where the terminal tells it apart",
    ),
    Binding(
        "up",
        "cursor_up",
        "Up",
        show=False,
        id="prompt.up",
        tooltip="Go up; in the first line, show the message sent before",
    ),
    Binding(
        "down",
        "cursor_down",
        "Down",
        show=False,
        id="prompt.down",
        tooltip="Go down; in the last line, show the message sent after",
    ),
]

CHAT_KEYS: list[BindingType] = [
    Binding("escape", "stop", "Stop", id="chat.stop", tooltip="Stop the answer and keep it"),
    Binding(
        "ctrl+n",
        "new",
        "New",
        id="chat.new",
        priority=True,
        tooltip="Begin a new conversation; this one is forgotten",
    ),
    Binding(
        "ctrl+r",
        "regenerate",
        "Again",
        id="chat.regenerate",
        priority=True,
        tooltip="Throw the last answer away and ask for another",
    ),
    Binding(
        "ctrl+o",
        "copy",
        "Copy",
        id="chat.copy",
        priority=True,
        tooltip="Copy the last answer's exact text to the clipboard",
    ),
    Binding(
        "f2", "show_plan", "Memory", id="chat.plan", tooltip="Show the memory plan line by line"
    ),
    Binding(
        "pageup",
        "scroll(-1)",
        "Page up",
        show=False,
        id="chat.page_up",
        priority=True,
        tooltip="Scroll the conversation up",
    ),
    Binding(
        "pagedown",
        "scroll(1)",
        "Page down",
        show=False,
        id="chat.page_down",
        priority=True,
        tooltip="Scroll the conversation down",
    ),
    Binding(
        "ctrl+c",
        "app.interrupt",
        "Stop or quit",
        show=False,
        id="chat.interrupt",
        priority=True,
        tooltip="Copy what is selected; else stop the answer; else quit",
    ),
    Binding("ctrl+q", "app.quit", "Quit", id="chat.quit", tooltip="Quit at once"),
]

PLAN_KEYS: list[BindingType] = [
    Binding(
        "escape,f2,q,enter",
        "dismiss",
        "Close",
        id="plan.close",
        tooltip="Go back to the conversation",
    ),
    Binding(
        "ctrl+c,ctrl+q", "app.quit", "Quit", show=False, id="plan.quit", tooltip="Quit at once"
    ),
]

APP_KEYS: list[BindingType] = [
    Binding(
        "f1",
        "help",
        "Help",
        show=False,
        id="app.help",
        tooltip="Show or hide what every key does",
    ),
]
