"""What was sent before, to be found again with the arrow keys."""

from __future__ import annotations


class InputHistory:
    """A list of texts and a place in it. Past its newest end lies the unfinished draft."""

    def __init__(self) -> None:
        self._sent: list[str] = []
        self._place = 0
        self._draft = ""

    def add(self, text: str) -> None:
        """Remember a text that was sent; the place goes back to an empty draft."""
        if not self._sent or self._sent[-1] != text:
            self._sent.append(text)
        self._place, self._draft = len(self._sent), ""

    def older(self, shown: str) -> str | None:
        """The text before the one that is `shown`, None at the oldest."""
        if self._place == 0:
            return None
        self._keep(shown)
        self._place -= 1
        return self._sent[self._place]

    def newer(self, shown: str) -> str | None:
        """The text after the one that is `shown`, the draft last, None at the draft."""
        if self._place == len(self._sent):
            return None
        self._keep(shown)
        self._place += 1
        return self._draft if self._place == len(self._sent) else self._sent[self._place]

    def _keep(self, shown: str) -> None:
        # Texts that were sent stay as they were; only the draft may change.
        if self._place == len(self._sent):
            self._draft = shown
