"""Text as it is: no markup, and nothing that a terminal would act on."""

from __future__ import annotations

from textual.widgets import Static

from edgekv.tui.visible import visible


class Line(Static):
    def __init__(self, text: str, classes: str) -> None:
        super().__init__(visible(text), classes=classes, markup=False)
        self._shown = text

    def show(self, text: str) -> None:
        if text != self._shown:
            self._shown = text
            self.update(visible(text))
