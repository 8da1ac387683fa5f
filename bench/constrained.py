"""What holding an answer to a schema costs: CPU time for each token, with and without.

    python -m bench.constrained models/*.gguf

Microseconds are of the engine thread's CPU time inside the choice of a token; `mask` is the part
that llguidance takes to say which may come. For each model the last line is one JSON document.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable
from typing import Any

from bench.report import report
from edgekv.core.events import Finished
from edgekv.core.frames import Submit
from edgekv.core.plan import Choice, Opening
from edgekv.core.request import Grammar, RequestId, SamplingParams, Segment, TextPrompt
from edgekv.engine.session import Session
from edgekv.llama.backend import LlamaLibrary
from edgekv.llama.grammar import Constraint
from edgekv.service.own_command import own_command

CHOICE = Choice(
    context_length=1024,
    slots=1,
    cells=1024,
    kv_type_k="f16",
    kv_type_v="f16",
    gpu_layers=0,
    batch=256,
    ubatch=256,
    swa_full=True,
    flash_attention=True,
    threads=1,
)
TEXT = {"type": "string", "maxLength": 60}
SCHEMA = {
    "type": "object",
    "properties": {
        "people": {
            "type": "array",
            "minItems": 12,
            "items": {
                "type": "object",
                "properties": {
                    "name": TEXT,
                    "city": TEXT,
                    "age": {"type": "integer", "minimum": 0, "maximum": 120},
                    "kind": {"enum": ["friend", "colleague", "stranger"]},
                },
                "required": ["name", "city", "age", "kind"],
                "additionalProperties": False,
            },
        }
    },
    "required": ["people"],
    "additionalProperties": False,
}
PROMPT = TextPrompt((Segment("Twelve people in JSON:\n", False),))


class Timed:
    """A function whose calls are timed, in microseconds of this thread."""

    def __init__(self, call: Callable[..., Any]) -> None:
        self._call = call
        self.times: list[float] = []

    def __call__(self, *arguments: Any) -> Any:
        started = time.thread_time_ns()
        result = self._call(*arguments)
        self.times.append((time.thread_time_ns() - started) / 1000)
        return result


def answer(session: Session, sampling: SamplingParams, num_tokens: int) -> None:
    session.submit(
        Submit(RequestId("a"), PROMPT, num_tokens, sampling, ignore_end=not sampling.grammar)
    )
    while not any(isinstance(event, Finished) for event in session.step()):
        pass


def measure(path: str, num_tokens: int) -> dict[str, object]:
    opening = Opening(path, CHOICE)
    library = LlamaLibrary(own_command("grammar"))
    backend, vocabulary, _ = library.open(opening, lambda _: None)
    session = Session(backend, vocabulary, opening)
    grammar = Grammar("json_schema", json.dumps(SCHEMA))
    started = time.thread_time()
    backend.compile(grammar)
    result: dict[str, object] = {"compile_ms": round(1000 * (time.thread_time() - started), 1)}
    choose, allow = backend.sample, Constraint.allowed
    for name, sampling in (
        ("free_greedy", SamplingParams(temperature=0)),
        ("held_greedy", SamplingParams(temperature=0, grammar=grammar)),
        ("free_sampled", SamplingParams(seed=1)),
        ("held_sampled", SamplingParams(seed=1, grammar=grammar)),
    ):
        chosen, mask = Timed(choose), Timed(allow)
        backend.sample = chosen  # type: ignore[assignment]
        Constraint.allowed = lambda self, timed=mask: timed(self)  # type: ignore[method-assign, misc]
        answer(session, sampling, num_tokens)
        result |= summary(name, chosen) | (summary(f"{name}_mask", mask) if mask.times else {})
    Constraint.allowed = allow  # type: ignore[method-assign]
    session.close()
    return result


def summary(name: str, timed: Timed) -> dict[str, object]:
    """Of all calls but the first, which also builds what the later ones use."""
    times = timed.times[1:]
    return {
        f"{name}_tokens": len(times),
        f"{name}_us_mean": round(statistics.fmean(times), 1),
        f"{name}_us_median": round(statistics.median(times), 1),
        f"{name}_us_worst": round(max(times), 1),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("models", nargs="+")
    parser.add_argument("--tokens", type=int, default=300)
    given = parser.parse_args()
    for path in given.models:
        report("constrained", path, measure(path, given.tokens))


if __name__ == "__main__":
    main()
