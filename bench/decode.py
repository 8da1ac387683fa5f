"""Decode speed at several numbers of answers at once, against llama.cpp's own measurement.

Build `llama-batched-bench` from the llama.cpp that the installed llama-cpp-python carries and
give its path; without it only our own side is measured.

    python -m bench.decode --model models/SmolLM2-135M-Instruct.Q4_1.gguf \\
        --ceiling llama-batched-bench
"""

from __future__ import annotations

import argparse
import asyncio
import json
import subprocess
import sys
import time

from bench.clients import Answer, Client
from bench.report import report
from bench.serving import edgekv
from bench.words import words
from edgekv.service.messages import Message

ROUNDS = 3


async def decode_speed(client: Client, at_once: int, tokens: int) -> float:
    """Tokens a second of all answers together, from the last first token to the first last."""
    started = time.perf_counter()

    async def one(number: int) -> tuple[float, Answer]:
        sent = time.perf_counter() - started
        answer = await client.ask(
            [Message("user", words(80, seed=number))], tokens, ignore_eos=True
        )
        assert isinstance(answer, Answer), answer
        return sent, answer

    answers = await asyncio.gather(*(one(number) for number in range(at_once)))
    begin = max(sent + answer.token_times[0] for sent, answer in answers)
    end = min(sent + answer.token_times[-1] for sent, answer in answers)
    inside = sum(
        sum(begin < sent + moment <= end for moment in answer.token_times)
        for sent, answer in answers
    )
    # Events carry text; tokens without any are in the next one, so scale by what was counted.
    events = sum(len(answer.token_times) for _, answer in answers)
    counted = sum(answer.answer_tokens for _, answer in answers)
    return inside * counted / events / (end - begin)


async def speeds(client: Client, numbers: list[int], tokens: int) -> dict[int, float]:
    await decode_speed(client, 1, 16)
    return {n: await decode_speed(client, n, tokens) for n in numbers}


def ceiling(command: str, model: str, numbers: list[int], tokens: int) -> dict[int, float]:
    """Decode speed by llama-batched-bench, with flash attention or without: whichever is faster."""
    rows = [row for flash in ("on", "off") for row in _rows(command, model, numbers, tokens, flash)]
    return {n: max(row["speed_tg"] for row in rows if row["pl"] == n) for n in numbers}


def _rows(
    command: str, model: str, numbers: list[int], tokens: int, flash: str
) -> list[dict[str, float]]:
    settings = (
        f"-c 8192 -b 512 -ub 512 -npp 128 -ntg {tokens} -fa {flash} -kvu -t 2 --output-format jsonl"
    )
    done = subprocess.run(
        [command, "-m", model, "-npl", ",".join(map(str, numbers)), *settings.split()],
        capture_output=True,
        text=True,
        check=True,
    )
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]


def memory_ceiling(model: str, numbers: list[int]) -> dict[str, float]:
    """The most that this machine's memory allows, where llama-batched-bench is not at hand."""
    command = [sys.executable, "-m", "edgekv", "bench", model, "--json"]
    command += ["--slots", "1", "--seconds", "5"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    alone = json.loads(done.stdout)["writing"][0]["ceiling"]
    return {str(n): round(n * alone, 1) for n in numbers}


def main() -> None:
    parser = argparse.ArgumentParser(description="Decode speed against llama.cpp's own.")
    parser.add_argument("--model", required=True)
    parser.add_argument("--ceiling", help="path of llama-batched-bench")
    parser.add_argument("--at-once", type=int, nargs="*", default=[1, 4, 16])
    parser.add_argument("--tokens", type=int, default=128)
    options = parser.parse_args()
    numbers, result = options.at_once, dict[str, object]()
    rounds: list[dict[int, float]] = []
    tops: list[dict[int, float]] = []
    for _ in range(ROUNDS):
        if options.ceiling:
            tops.append(ceiling(options.ceiling, options.model, numbers, options.tokens))
        pool = ("--slots", str(max(numbers)), "--cells", "8192", "--ctx", "8192")
        with edgekv(options.model, *pool) as server:
            rounds.append(asyncio.run(speeds(Client(server.url), numbers, options.tokens)))
    for n in numbers:
        speed = sorted(r[n] for r in rounds)[ROUNDS // 2]
        result[f"tokens_per_second_at_{n}"] = round(speed, 1)
        if tops:
            top = sorted(t[n] for t in tops)[ROUNDS // 2]
            result[f"ceiling_at_{n}"] = round(top, 1)
            result[f"ratio_at_{n}"] = round(speed / top, 3)
    report("decode", options.model, result)


if __name__ == "__main__":
    main()
