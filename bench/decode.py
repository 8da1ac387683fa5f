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
import os
import statistics
import subprocess
import sys
import time

import openai

from bench.clients import Answer, Client
from bench.report import report
from bench.serving import edgekv
from bench.words import words
from edgekv.service.messages import Message

ROUNDS = 3


async def decode_speed(client: Client, at_once: int, tokens: int) -> float | None:
    """Tokens a second of all answers together, from the last first token to the first last.

    None if they were too short for that, or one was not answered.
    """
    started = time.perf_counter()

    async def one(number: int) -> tuple[float, Answer | openai.APIError]:
        sent = time.perf_counter() - started
        answer = await client.ask(
            [Message("user", words(80, seed=number))], tokens, ignore_eos=True
        )
        return sent, answer

    ended = await asyncio.gather(*(one(number) for number in range(at_once)))
    answers = [(sent, answer) for sent, answer in ended if isinstance(answer, Answer)]
    if len(answers) < at_once:
        return None
    begin = max(sent + answer.token_times[0] for sent, answer in answers)
    end = min(sent + answer.token_times[-1] for sent, answer in answers)
    if end <= begin:
        return None
    inside = sum(
        sum(begin < sent + moment <= end for moment in answer.token_times)
        for sent, answer in answers
    )
    # Events carry text; tokens without any are in the next one, so scale by what was counted.
    events = sum(len(answer.token_times) for _, answer in answers)
    counted = sum(answer.answer_tokens for _, answer in answers)
    return inside * counted / events / (end - begin)


async def speeds(client: Client, numbers: list[int], tokens: int) -> dict[int, float | None]:
    await decode_speed(client, 1, 16)
    return {n: await decode_speed(client, n, tokens) for n in numbers}


def ceiling(
    command: str, model: str, numbers: list[int], tokens: int, threads: int
) -> dict[int, float]:
    """Decode speed by llama-batched-bench in one pool, with or without flash attention: the better.

    Which is faster hangs on the processor and on how long the answers are.
    """
    settings = f"-c 8192 -b 512 -ub 512 -npp 128 -ntg {tokens} -kvu -t {threads}"
    best: dict[int, float] = {}
    for flash_attention in ("on", "off"):
        asked = [command, "-m", model, "-npl", ",".join(map(str, numbers)), *settings.split()]
        asked += ["-fa", flash_attention, "--output-format", "jsonl"]
        done = subprocess.run(asked, capture_output=True, text=True, check=True)
        for line in done.stdout.splitlines():
            if line.startswith("{"):
                row = json.loads(line)
                best[row["pl"]] = max(best.get(row["pl"], 0.0), row["speed_tg"])
    return best


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
    numbers, result, threads = options.at_once, dict[str, object](), os.cpu_count() or 1
    rounds: list[dict[int, float | None]] = []
    tops: list[dict[int, float]] = []
    for _ in range(ROUNDS):
        if options.ceiling:
            tops.append(ceiling(options.ceiling, options.model, numbers, options.tokens, threads))
        pool = ("--slots", str(max(numbers)), "--cells", "8192", "--ctx", "8192")
        with edgekv(options.model, *pool) as server:
            rounds.append(asyncio.run(speeds(Client(server.url), numbers, options.tokens)))
    for n in numbers:
        speed = statistics.median(r[n] or 0.0 for r in rounds)
        result[f"tokens_per_second_at_{n}"] = round(speed, 1)
        if tops:
            top = statistics.median(t[n] for t in tops)
            result[f"ceiling_at_{n}"] = round(top, 1)
            result[f"ratio_at_{n}"] = round(speed / top, 3)
    report("decode", options.model, result)


if __name__ == "__main__":
    main()
