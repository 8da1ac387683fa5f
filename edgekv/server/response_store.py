"""Responses that a later request may go on from, in memory: the oldest go first."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from typing import Any

import msgspec

from edgekv.errors import InvalidValue
from edgekv.service.messages import Message

LIMIT_BYTES = 32 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class StoredResponse:
    response: dict[str, Any]
    messages: tuple[Message, ...]
    """The conversation with this response at its end, without instructions."""
    num_bytes: int


class ResponseStore:
    def __init__(self, limit_bytes: int = LIMIT_BYTES) -> None:
        self._limit_bytes = limit_bytes
        self._num_bytes = 0
        self._stored: OrderedDict[str, StoredResponse] = OrderedDict()

    def put(self, response: dict[str, Any], messages: tuple[Message, ...]) -> None:
        num_bytes = len(msgspec.json.encode((response, messages)))
        self._stored[response["id"]] = StoredResponse(response, messages, num_bytes)
        self._num_bytes += num_bytes
        while self._num_bytes > self._limit_bytes:
            _, oldest = self._stored.popitem(last=False)
            self._num_bytes -= oldest.num_bytes

    def get(self, response_id: str) -> StoredResponse | None:
        return self._stored.get(response_id)

    def remove(self, response_id: str) -> bool:
        """False if there was none."""
        stored = self._stored.pop(response_id, None)
        self._num_bytes -= stored.num_bytes if stored else 0
        return stored is not None

    def before(self, response_id: str | None) -> tuple[Message, ...]:
        """The conversation up to a response. Raises `InvalidValue` if it is not there any more."""
        if response_id is None:
            return ()
        stored = self._stored.get(response_id)
        if stored is None:
            raise InvalidValue(
                "previous_response_id",
                f"previous_response_id: there is no response '{response_id[:80]}' any more; "
                "send the whole conversation as input.",
            )
        return stored.messages
