"""Pictures of the screens, from the real app on workers with fixed numbers: `make screenshots`.

`docs/images` gets them as SVG; `tests/tui/screens` gets what they say, in two sizes, as text that
a review can read. `test_screenshots.py` compares both with what the app draws.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import sys
import tempfile
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

from edgekv.history.archive import Archive
from edgekv.service.conversation import ChatModel
from edgekv.tui.app import ChatApp
from edgekv.tui.dial import Dial
from edgekv.tui.models_screen import ModelsScreen
from edgekv.tui.plan_screen import PlanScreen
from tests.conftest import REPOSITORY
from tests.tui.fakes import PlainFormat, Script
from tests.tui.open_chat import OpenChat
from tests.tui.shelf import PaperSupply, catalogued
from tests.tui.watched import WatchedWorker

IMAGES = REPOSITORY / "docs" / "images"
TEXTS = REPOSITORY / "tests" / "tui" / "screens"
SIZES = ((80, 24), (120, 40))
PICTURE_SIZE = (100, 31)

CELL_WIDTH = 12.2
"""Of a character, in the SVG's units."""

QUESTION = "Write a haiku about memory, and say what it costs."
ANSWER = """\
> Eight gigabytes wide,
> a thousand voices share one
> beginning, kept once.

It costs **23 KB a token** in this model:

| part | bytes |
|---|---|
| keys | 11,520 |
| values | 11,520 |
"""


@dataclass(frozen=True)
class Scene:
    """How to get a screen, and words that are on it once it is complete."""

    show: Callable[[OpenChat], Awaitable[None]]
    complete: str
    in_texts: bool = True


async def _chat(chat: OpenChat) -> None:
    await chat.ask(QUESTION)


async def _engine(chat: OpenChat) -> None:
    await chat.pilot.press("f2")


async def _plan(chat: OpenChat) -> None:
    await chat.pilot.press("f4")
    await chat.shows("what to plan for")
    screen = chat.app.screen
    assert isinstance(screen, PlanScreen)
    screen.query(Dial)[1].focus()
    await chat.pilot.press("right", "right")
    screen._plan_now()


async def _models(chat: OpenChat) -> None:
    supply = PaperSupply()
    supply.shown = catalogued()
    chat.app._views["models"] = lambda: ModelsScreen(supply, lambda _: None)
    await chat.pilot.press("f3")


SCENES = {
    # What the chat says is compared where it is made, in test_drawing.py.
    "chat": Scene(_chat, "11,520", in_texts=False),
    "engine": Scene(_engine, "3 running"),
    "plan": Scene(_plan, "applies"),
    "models": Scene(_models, "on this disk"),
}


REDRAWN_SECONDS = 0.6
"""A screen that stayed the same for so long has shown a whole report since its last layout."""


async def picture(name: str, size: tuple[int, int]) -> str:
    """A screen as SVG; the same each time but for styles."""
    scene, clock = SCENES[name], itertools.count()
    words = tuple(f"{word} " for word in ANSWER.split(" "))
    worker = WatchedWorker(Script(words=words))
    model = ChatModel(worker, PlainFormat, clock=lambda: next(clock) * 0.031)
    with tempfile.TemporaryDirectory() as folder:
        archive = Archive(Path(folder) / "conversations.db")
        app = ChatApp(model, "SmolLM2-135M-Instruct.Q4_1", archive=archive)
        async with app.run_test(size=size) as pilot:
            chat = OpenChat(app, pilot, worker)
            await chat.shows("KV used")
            await scene.show(chat)
            await chat.shows(scene.complete)
            before = ""
            while (drawn := app.export_screenshot(title="EdgeKV")) != before:
                before = drawn
                await pilot.pause(REDRAWN_SECONDS)
            return drawn


def words_of(svg: str) -> str:
    """What an SVG says, line by line."""
    lines: dict[float, list[tuple[float, str]]] = {}
    for node in ElementTree.fromstring(svg).iter("{http://www.w3.org/2000/svg}text"):
        if node.get("clip-path"):  # what belongs to the screen, not to the frame around it
            place, height = float(node.get("x", 0)), float(node.get("y", 0))
            lines.setdefault(height, []).append((place, node.text or ""))
    return "".join(f"{_line(lines[height])}\n" for height in sorted(lines))


def _line(pieces: list[tuple[float, str]]) -> str:
    """Texts by where they begin; between them the picture has nothing."""
    line = ""
    for place, text in sorted(pieces):
        line = line.ljust(round(place / CELL_WIDTH)) + text.replace("\xa0", " ")
    return line.rstrip()


def text_file(name: str, size: tuple[int, int]) -> Path:
    return TEXTS / f"{name}-{size[0]}x{size[1]}.txt"


async def _draw_all() -> None:
    for name, scene in SCENES.items():
        (IMAGES / f"{name}.svg").write_text(await picture(name, PICTURE_SIZE), encoding="utf-8")
        for size in SIZES if scene.in_texts else ():
            said = words_of(await picture(name, size))
            text_file(name, size).write_text(said, encoding="utf-8")


def main() -> None:
    # As in the tests: the same terminal, and nobody's own settings.
    os.environ |= {"TERM": "xterm-256color", "COLORTERM": "truecolor"}
    os.environ.pop("NO_COLOR", None)
    with tempfile.TemporaryDirectory() as home:
        os.environ["EDGEKV_HOME"] = home
        TEXTS.mkdir(exist_ok=True)
        asyncio.run(_draw_all())
    sys.stdout.write(f"drawn into {IMAGES} and {TEXTS}\n")


if __name__ == "__main__":
    main()
