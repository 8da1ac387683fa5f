"""How evenly answers flow: the last waits for a first token, and the last gaps between tokens."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable

from edgekv.core.events import Delta, Failed, Finished, StreamEvent
from edgekv.core.request import RequestId

NUM_REMEMBERED = 120
"""More than a line of the widest usual terminal can show."""


class Rhythm:
    """Listens to one engine for everybody who asks it. All times are seconds."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._asked: dict[RequestId, float] = {}
        self._told: dict[RequestId, float] = {}
        self.first_tokens: deque[float] = deque(maxlen=NUM_REMEMBERED)
        """From asking to the first text, for each of the last answers."""
        self.gaps: deque[float] = deque(maxlen=NUM_REMEMBERED)
        """The longest of each of the last steps: between two pieces of the same answer."""

    def times(self) -> tuple[tuple[float, ...], tuple[float, ...]]:
        """`first_tokens` and `gaps`."""
        return tuple(self.first_tokens), tuple(self.gaps)

    def ask(self, request_id: RequestId) -> None:
        self._asked[request_id] = self._clock()

    def hear(self, events: Iterable[StreamEvent]) -> None:
        """The events of one step."""
        now, longest = self._clock(), 0.0
        for event in events:
            request_id = event.request_id
            if isinstance(event, Delta):
                if (asked := self._asked.pop(request_id, None)) is not None:
                    self.first_tokens.append(now - asked)
                elif (told := self._told.get(request_id)) is not None:
                    longest = max(longest, now - told)
                self._told[request_id] = now
            elif isinstance(event, Finished | Failed):
                self._asked.pop(request_id, None)
                self._told.pop(request_id, None)
        if longest:
            self.gaps.append(longest)
