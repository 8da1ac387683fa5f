"""What somebody probably meant by a word that nobody knows."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def nearest(word: str, known: Iterable[str]) -> str:
    """ "did you mean 'slots'?", or all that there is where nothing is like `word`."""
    names = {name.lower(): name for name in sorted(known)}
    alike = difflib.get_close_matches(word.lower(), names, n=1)
    if alike:
        return f"did you mean '{names[alike[0]]}'?"
    return f"there is {', '.join(names.values())}."
