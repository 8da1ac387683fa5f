"""How EdgeKV's own costs grow, in CPU time, so that other work on the machine changes little.

Beside llama.cpp, a step costs the engine's Python; a token costs the server's process its way
through the pipe and the socket. Each curve is a list of points [x, milliseconds].
"""

from __future__ import annotations

from bench import front_end, step_cost

RUNNING = 16
"""Where something else than the number of running sequences is varied."""
SEQUENCES = (1, 2, 4, 8, 16, 32, 64)
KEPT_TOKENS = (1_000, 3_000, 10_000, 30_000, 100_000)
NUM_KEPT = 64
IDS = (32, 64, 128, 256)
TOKENS_OF_EACH_ID = 100
CONNECTIONS = (1, 10, 50, 100, 200)
STREAMED_TOKENS = 2_000
"""In all, however many connections share them."""


def measure(model: str, *, short: bool) -> dict[str, object]:
    steps = 20 if short else 200
    connections = CONNECTIONS[:2] if short else CONNECTIONS
    num_tokens = 40 if short else STREAMED_TOKENS
    return {
        "what": "milliseconds of CPU time of EdgeKV's own code",
        "step_by_sequences": [[n, _step(steps, n)] for n in SEQUENCES],
        "step_by_kept_tokens": [[n, _step(steps, RUNNING, NUM_KEPT, n)] for n in KEPT_TOKENS],
        "step_by_ids": [
            [n, _step(steps, RUNNING, n - RUNNING, (n - RUNNING) * TOKENS_OF_EACH_ID)] for n in IDS
        ],
        "token_by_connections": [[n, _token(model, n, num_tokens // n)] for n in connections],
    }


def _step(steps: int, running: int, kept: int = 0, kept_tokens: int = 0) -> object:
    return step_cost.measure(running, kept, kept_tokens, steps=steps)["step_ms"]


def _token(model: str, connections: int, tokens: int) -> object:
    """Seconds for 1,000 tokens are milliseconds for one."""
    return front_end.measure(model, connections, tokens)["cpu_seconds_per_1000_tokens"]
