"""Every key of the terminal app, in the order the footer shows them."""

from __future__ import annotations

from dataclasses import replace

from textual.binding import Binding, BindingType

PROMPT_KEYS: list[BindingType] = [
    Binding("enter", "send", "Send", show=False, id="prompt.send", tooltip="Send the message"),
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
    Binding(
        "tab",
        "complete",
        "Complete",
        id="prompt.complete",
        tooltip="Take the command that is marked in the list",
    ),
    Binding(
        "escape",
        "hide_list",
        "Hide",
        show=False,
        id="prompt.hide",
        tooltip="Hide the list of commands",
    ),
]

SPOKEN_KEYS: list[BindingType] = [
    Binding(
        "up", "app.focus_previous", "Before", show=False, id="said.before", tooltip="Message before"
    ),
    Binding("down", "app.focus_next", "Next", show=False, id="said.next", tooltip="Message after"),
    Binding("f", "fork", "Fork", id="said.fork", tooltip="Go on from here in a new conversation"),
    Binding("e", "edit", "Edit", id="said.edit", tooltip="Ask this question in other words"),
    Binding(
        "r", "again", "Again", id="said.again", tooltip="Have this question answered once more"
    ),
    Binding(
        "left",
        "other(-1)",
        "Other",
        show=False,
        id="said.other_before",
        tooltip="Show the answer before this one to the same question",
    ),
    Binding(
        "right",
        "other(1)",
        "Other",
        show=False,
        id="said.other_after",
        tooltip="Show the answer after this one to the same question",
    ),
    Binding("c", "copy", "Copy", id="said.copy", tooltip="Copy the exact text"),
    Binding("y", "copy_code", "Code", id="said.code", tooltip="Copy the last piece of code in it"),
    Binding("enter,space", "unfold", "Unfold", id="said.unfold", tooltip="Show what is folded"),
    Binding("escape", "leave", "Back", id="said.leave", tooltip="Go back to the message box"),
]

LIST_KEYS: list[BindingType] = [
    Binding("enter", "open", "Open", id="list.open", tooltip="Open this conversation"),
    Binding("up", "move(-1)", "Up", show=False, id="list.up", tooltip="The one before"),
    Binding("down", "move(1)", "Down", show=False, id="list.down", tooltip="The one after"),
    Binding(
        "ctrl+e",
        "rename",
        "Rename",
        id="list.rename",
        priority=True,
        tooltip="Give it another name",
    ),
    Binding(
        "ctrl+d",
        "delete",
        "Delete",
        id="list.delete",
        priority=True,
        tooltip="Delete this conversation",
    ),
    Binding(
        "ctrl+z",
        "undo",
        "Undo",
        id="list.undo",
        priority=True,
        tooltip="Bring back what was deleted last",
    ),
    Binding("escape", "close", "Close", id="list.close", tooltip="Go back to the message box"),
]

CHAT_KEYS: list[BindingType] = [
    Binding("escape", "stop", "Stop", id="chat.stop", tooltip="Stop the answer and keep it"),
    Binding(
        "ctrl+n",
        "new",
        "New",
        id="chat.new",
        priority=True,
        tooltip="Begin a new conversation",
    ),
    Binding(
        "ctrl+l",
        "toggle_list",
        "List",
        id="chat.list",
        priority=True,
        tooltip="Show or hide the list of conversations",
    ),
    Binding(
        "ctrl+up",
        "go_back",
        "Said",
        show=False,
        id="chat.said",
        priority=True,
        tooltip="Go to what was said last: to fork, edit, copy or unfold it",
    ),
    Binding(
        "ctrl+r",
        "regenerate",
        "Again",
        show=False,
        id="chat.regenerate",
        priority=True,
        tooltip="Ask for another answer; the last one is kept beside it",
    ),
    Binding(
        "alt+left",
        "other(-1)",
        "Other",
        show=False,
        id="chat.other_before",
        priority=True,
        tooltip="Show the last question's answer before this one",
    ),
    Binding(
        "alt+right",
        "other(1)",
        "Other",
        show=False,
        id="chat.other_after",
        priority=True,
        tooltip="Show the last question's answer after this one",
    ),
    Binding(
        "ctrl+o",
        "copy",
        "Copy",
        show=False,
        id="chat.copy",
        priority=True,
        tooltip="Copy the last answer's exact text to the clipboard",
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
]

_BACK = Binding("escape", "app.view('chat')", "Chat", tooltip="Go back to the conversation")


def _back(screen: str) -> list[BindingType]:
    """The keys that every screen over the chat has."""
    return [
        replace(_BACK, id=f"{screen}.back"),
        Binding(
            "ctrl+c",
            "app.quit",
            "Quit",
            show=False,
            id=f"{screen}.interrupt",
            tooltip="Quit at once",
        ),
    ]


ENGINE_KEYS: list[BindingType] = [
    *_back("engine"),
    Binding("up,k", "scroll(-1)", "Up", show=False, id="engine.up", tooltip="Scroll up"),
    Binding("down,j", "scroll(1)", "Down", show=False, id="engine.down", tooltip="Scroll down"),
]

PLAN_KEYS: list[BindingType] = [
    *_back("plan"),
    Binding("ctrl+s", "apply", "Apply", id="plan.apply", tooltip="Open the model as planned here"),
    Binding("ctrl+z", "undo", "As it is", id="plan.undo", tooltip="Show the plan that is in force"),
]

DIAL_KEYS: list[BindingType] = [
    Binding("right,plus", "turn(1)", "More", id="dial.more", tooltip="Turn to the next value"),
    Binding("left,minus", "turn(-1)", "Less", id="dial.less", tooltip="Turn to the value before"),
    Binding(
        "home", "auto", "Auto", show=False, id="dial.auto", tooltip="Leave the value to the plan"
    ),
    Binding("down", "app.focus_next", "Next", show=False, id="dial.next", tooltip="Next dial"),
    Binding(
        "up", "app.focus_previous", "Before", show=False, id="dial.before", tooltip="Dial before"
    ),
]

MODELS_KEYS: list[BindingType] = [
    *_back("models"),
    Binding("enter", "use", "Use", id="models.open", tooltip="Go on with this model, or get it"),
    Binding("g", "get", "Get", id="models.get", tooltip="Download this model"),
    Binding("x", "stop", "Stop", id="models.stop", tooltip="Stop the download, to go on later"),
    Binding("d", "delete", "Delete", id="models.delete", tooltip="Delete this model; press twice"),
]

HELP_KEYS: list[BindingType] = [*_back("help")]

APP_KEYS: list[BindingType] = [
    Binding(
        "f1", "view('help')", "Help", id="app.help", tooltip="Show what every key does, or go back"
    ),
    Binding(
        "f2",
        "view('engine')",
        "Engine",
        id="app.engine",
        tooltip="Show who holds which cells and what runs, or go back",
    ),
    Binding(
        "f3",
        "view('models')",
        "Models",
        id="app.models",
        tooltip="Show which models fit and which are here, or go back",
    ),
    Binding(
        "f4",
        "view('plan')",
        "Plan",
        id="app.plan",
        tooltip="Show the memory plan and try others, or go back",
    ),
    Binding("ctrl+q", "quit", "Quit", id="app.quit", tooltip="Quit at once"),
]

KEYS: dict[str, list[BindingType]] = {
    "everywhere": APP_KEYS,
    "the message box": PROMPT_KEYS,
    "the conversation": CHAT_KEYS,
    "something that was said": SPOKEN_KEYS,
    "the list of conversations": LIST_KEYS,
    "the engine": ENGINE_KEYS,
    "the models": MODELS_KEYS,
    "the plan": PLAN_KEYS,
    "a value of the plan": DIAL_KEYS,
    "this help": HELP_KEYS,
}
"""All of them, by where they work: the help screen, and what settings may name."""
