"""What a long chat costs the screen: processor time per token, and how soon a key is seen.

Answers of Markdown are fed to the real app at a steady rate, one after the other, into a history
on disk; meanwhile a key is typed every fifth of a second. The claim is that neither figure grows
with the conversation: compare the first answer with the last. No model is loaded, so nothing is
measured but the screen and the history. `key_cpu_ms_max` is what the event loop computed before
a key was on the screen: that can be told on a busy machine too.

python -m bench.long_chat --model FILE --answers 10 --tokens 1000 --rate 200
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import statistics
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from textual.events import Key
from textual.pilot import Pilot

from bench.report import report
from edgekv.errors import EdgeKVError
from edgekv.history.archive import Archive
from edgekv.service.conversation import ChatModel
from edgekv.tui.app import ChatApp
from tests.tui.fakes import PlainFormat, Script, ScriptedWorker

BLOCK = (
    "## Heading\n\nSome **bold** words and `code` in a line that is long enough to wrap once.\n\n"
    "- an entry\n- another one\n\n```python\ndef f(x):\n    return x + 1\n```\n\n"
    "| a | b |\n|---|---|\n| 1 | 2 |\n\n"
)
SECONDS_BETWEEN_KEYS = 0.2


def pieces(num_tokens: int) -> Iterator[str]:
    """So many pieces of text of about four characters."""
    text = itertools.cycle(BLOCK)
    return ("".join(itertools.islice(text, 4)) for _ in range(num_tokens))


async def feed(gate: asyncio.Semaphore, num_tokens: int, rate: float) -> None:
    began = time.monotonic()
    for number in range(num_tokens):
        gate.release()
        await asyncio.sleep(max(0.0, began + (number + 1) / rate - time.monotonic()))


@dataclass(frozen=True, slots=True)
class Delay:
    """From a key until it is on the screen."""

    seconds: float
    cpu_seconds: float
    """Of the event loop's thread."""


async def type_keys(app: ChatApp, delays: list[Delay]) -> None:
    """Type for ever."""
    prompt = app.chat.prompt
    while True:
        await asyncio.sleep(SECONDS_BETWEEN_KEYS)
        before, began, cpu_began = prompt.text, time.perf_counter(), time.thread_time()
        prompt.post_message(Key("x", "x"))
        while prompt.text == before:
            await asyncio.sleep(0.001)
        drawn = asyncio.Event()
        app.screen.call_after_refresh(drawn.set)
        await drawn.wait()
        delays.append(Delay(time.perf_counter() - began, time.thread_time() - cpu_began))


async def one_answer(
    app: ChatApp, pilot: Pilot[EdgeKVError], gate: asyncio.Semaphore, num_tokens: int, rate: float
) -> dict[str, float]:
    """Ask, feed and type until the answer is finished."""
    app.chat.prompt.text = "Go on."
    await pilot.press("enter")
    delays: list[Delay] = []
    typing = asyncio.create_task(type_keys(app, delays))
    began = time.process_time()
    await feed(gate, num_tokens, rate)
    while app.chat.talk.turn is not None:
        await asyncio.sleep(0.01)
    spent = time.process_time() - began
    typing.cancel()
    await pilot.pause()
    if not delays:
        raise SystemExit("No key was typed: give more --tokens or a lower --rate.")
    return {
        "cpu_ms_per_token": round(1000 * spent / num_tokens, 3),
        "key_ms_median": round(1000 * statistics.median(d.seconds for d in delays), 1),
        "key_ms_max": round(1000 * max(d.seconds for d in delays), 1),
        "key_cpu_ms_max": round(1000 * max(d.cpu_seconds for d in delays), 1),
        "widgets": len(app.chat.talk.walk_children()),
    }


async def run(answers: int, num_tokens: int, rate: float) -> list[dict[str, float]]:
    gate = asyncio.Semaphore(0)
    scripts = [Script(words=tuple(pieces(num_tokens)), gate=gate) for _ in range(answers)]
    with tempfile.TemporaryDirectory() as folder:
        archive = Archive(Path(folder) / "conversations.sqlite")
        model = ChatModel(ScriptedWorker(*scripts), PlainFormat)
        app = ChatApp(model, "model", archive=archive)
        async with app.run_test(size=(120, 40)) as pilot:
            results = [await one_answer(app, pilot, gate, num_tokens, rate) for _ in scripts]
        archive.close()
    return results


def main() -> None:
    parser = argparse.ArgumentParser(description="What a long chat costs the screen.")
    parser.add_argument("--model", required=True, help="Named in the report; it is not opened.")
    parser.add_argument("--answers", type=int, default=10)
    parser.add_argument("--tokens", type=int, default=1000, help="Of each answer.")
    parser.add_argument("--rate", type=float, default=200.0, help="Tokens a second.")
    chosen = parser.parse_args()
    results = asyncio.run(run(chosen.answers, chosen.tokens, chosen.rate))
    first, last = results[0], results[-1]
    report(
        "long_chat",
        chosen.model,
        {
            "tokens": chosen.answers * chosen.tokens,
            "rate": chosen.rate,
            "first": first,
            "last": last,
            "cpu_growth": round(last["cpu_ms_per_token"] / first["cpu_ms_per_token"], 2),
            "key_ms_max": max(result["key_ms_max"] for result in results),
            "key_cpu_ms_max": max(result["key_cpu_ms_max"] for result in results),
        },
    )


if __name__ == "__main__":
    main()
