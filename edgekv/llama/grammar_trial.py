"""Tries a grammar in a process that may be stopped, before the engine compiles it.

A few bytes of schema can ask for minutes and gigabytes: {"type": "integer", "multipleOf": 1000003}
does. What a trial survives costs the engine as much as it cost here, so both are limited here.

    engine ──Trial──▶ stdin │ compile, begin │ stdout ──Outcome──▶ engine
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec
import psutil

if TYPE_CHECKING:
    from llguidance import LLMatcher

SECONDS = 3
"""Of processor time. An enumeration of 20,000 texts takes half a second."""
SECONDS_IN_ALL = 60
"""From its start on, by the clock: a busy machine is not the schema's fault."""
MEMORY_LIMIT_BYTES = 64 * 1024 * 1024
"""What a trial may add to the process. An enumeration of 20,000 texts adds 13 MB."""

_NUM_BYTES = 256
_END = _NUM_BYTES


class TooMuch(Exception):
    """The trial went over a limit."""


class Trial(msgspec.Struct, frozen=True):
    grammar: str
    """As llguidance takes it."""
    special: Sequence[str]
    """Texts of marks that the grammar may name."""
    num_tokens: int
    """Token ids that the grammar may name are below this."""


class Outcome(msgspec.Struct, frozen=True):
    num_bytes: int
    """What the compiled grammar takes."""
    error: str
    """What is wrong with it, in llguidance's words; "" if nothing is."""


def run(command: Sequence[str], trial: Trial) -> Outcome:
    """`command` starts a process whose `main` is the one below. Raises `TooMuch`."""
    try:
        done = subprocess.run(
            command,
            input=msgspec.msgpack.encode(trial),
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=SECONDS_IN_ALL,
            check=True,
        )
    except (subprocess.TimeoutExpired, subprocess.CalledProcessError):
        raise TooMuch from None
    return msgspec.msgpack.decode(done.stdout, type=Outcome)


def main() -> None:
    """Compile the grammar on stdin and tell the `Outcome` on stdout; end early at a limit."""
    from llguidance import LLMatcher, LLParserLimits, LLTokenizer

    trial = msgspec.msgpack.decode(sys.stdin.buffer.read(), type=Trial)
    tokens = _Bytes(trial.special, trial.num_tokens)
    tokenizer = LLTokenizer(tokens, slices=[])  # type: ignore[arg-type]
    process = psutil.Process()
    _limit(process)
    before = process.memory_info().rss
    limits = LLParserLimits(verbose_errors=False)
    matcher = LLMatcher(tokenizer, trial.grammar, log_level=0, limits=limits)
    if not matcher.is_error():
        _begin(matcher)
    outcome = Outcome(process.memory_info().rss - before, matcher.get_error())
    sys.stdout.buffer.write(msgspec.msgpack.encode(outcome))


def _begin(matcher: LLMatcher) -> None:
    """Go to the first place where an answer has a choice: some mistakes and much of the work
    show only there.
    """
    matcher.compute_bitmask()
    matcher.consume_tokens(matcher.compute_ff_tokens())
    if not matcher.is_stopped():
        matcher.compute_bitmask()


def _limit(process: psutil.Process) -> None:
    """End this process when it takes too much from here on; on Windows only time is limited."""
    if sys.platform == "win32":
        return
    import resource

    used = process.cpu_times()
    seconds = int(used.user + used.system) + 1 + SECONDS
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if sys.platform == "linux":  # elsewhere the address space has no limit that holds
        space = process.memory_info().vms + MEMORY_LIMIT_BYTES
        resource.setrlimit(resource.RLIMIT_AS, (space, space))


class _Bytes:
    """A vocabulary of single bytes, as llguidance asks one for its tokens."""

    is_tokenizer_wrapper = True
    eos_token_id = _END
    bos_token_id = None

    def __init__(self, special: Sequence[str], num_tokens: int) -> None:
        self.tokens = [bytes([byte]) for byte in range(_NUM_BYTES)]
        self.tokens += [text.encode() for text in ("<end>", *special)]
        self.special_token_ids = list(range(_END, len(self.tokens)))
        self.tokens += [b""] * (num_tokens - len(self.tokens))

    def __call__(self, text: bytes | str) -> list[int]:
        return list(text.encode() if isinstance(text, str) else text)
