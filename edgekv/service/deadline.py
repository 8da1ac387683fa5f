"""An answer that is of no use after a certain moment."""

from __future__ import annotations

import asyncio
from contextlib import aclosing

from edgekv.core.events import AnswerStream, Delta, Finished, FinishReason
from edgekv.core.request import RequestId
from edgekv.errors import DeadlineExceeded


async def until(seconds: float, request_id: RequestId, events: AnswerStream) -> AnswerStream:
    """The events of a request that come within `seconds` from now, and its end.

    Then its cells are freed. An answer that has begun ends as if it had reached its length, behind
    the last piece that was told. Raises `DeadlineExceeded` for one that has not.
    """
    loop = asyncio.get_running_loop()
    end, num_told = loop.time() + seconds, 0
    async with aclosing(events):
        while loop.time() < end:
            try:
                async with asyncio.timeout_at(end):
                    event = await anext(events)
            except TimeoutError:
                break
            except StopAsyncIteration:
                return
            if isinstance(event, Delta):
                num_told = event.num_tokens
            yield event
    if not num_told:
        raise DeadlineExceeded
    yield Finished(request_id, FinishReason.LENGTH, num_told)
