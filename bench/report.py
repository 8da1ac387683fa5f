"""What every measurement prints: a table for people, then one JSON document on the last line."""

from __future__ import annotations

import datetime
import hashlib
import json
import os
import platform
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path


def report(name: str, model: str, result: dict[str, object]) -> None:
    for key, value in result.items():
        sys.stdout.write(f"{key:32} {value}\n")
    document = {"bench": name, **surroundings(model), "result": result}
    sys.stdout.write(json.dumps(document) + "\n")


def surroundings(model: str) -> dict[str, object]:
    """What a figure hangs on: the model by its hash, versions, commit, machine, the day."""
    commit = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True)
    with Path(model).open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    return {
        "model": Path(model).name,
        "model_sha256": digest,
        "edgekv": version("edgekv"),
        "llama_cpp_python": version("llama-cpp-python"),
        "commit": commit.stdout.strip(),
        "day": datetime.date.today().isoformat(),
        "machine": {
            "architecture": platform.machine(),
            "processor": _processor(),
            "cpus": os.cpu_count(),
            "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        },
    }


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    return next((x.split(": ", 1)[1] for x in lines if x.startswith("model name")), "unknown")
