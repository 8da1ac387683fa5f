"""llama.cpp as it is installed: whether it fits this processor and uses what is in the machine."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from edgekv.budget.devices import read_budget
from edgekv.budget.sizes import format_size
from edgekv.budget.wish import Wish
from edgekv.core.library import BUILD_RPC, RPC, TESTED_VERSIONS, LibraryFacts
from edgekv.doctor.finding import Finding, fault, fine, warning
from edgekv.doctor.graphics import graphics_in
from edgekv.doctor.host import Host
from edgekv.doctor.nvidia import examine_nvidia, hides_devices

REINSTALL = f"pip install --force-reinstall --no-cache-dir llama-cpp-python=={TESTED_VERSIONS[-1]}"
OTHER_BUNDLE = (
    "take the bundle for this system, or make one here: make bundle (in a clone of EdgeKV)"
)
SECONDS_TO_LOAD = 60.0
"""From a cold disk, CUDA included."""

# ggml's name of an instruction set: the kernel's name of it in /proc/cpuinfo.
X86_FLAGS = {
    "SSE3": "pni",
    "SSSE3": "ssse3",
    "AVX": "avx",
    "F16C": "f16c",
    "FMA": "fma",
    "AVX2": "avx2",
    "BMI2": "bmi2",
    "AVX_VNNI": "avx_vnni",
    "AVX512": "avx512f",
    "AVX512_VBMI": "avx512vbmi",
    "AVX512_VNNI": "avx512_vnni",
    "AVX512_BF16": "avx512_bf16",
    "AMX_INT8": "amx_int8",
}
ARM_FLAGS = {
    "NEON": "asimd",
    "FP16_VA": "asimdhp",
    "DOTPROD": "asimddp",
    "MATMUL_INT8": "i8mm",
    "SVE": "sve",
    "SVE2": "sve2",
    "SME": "sme",
}
WORTH_A_BUILD = ("AVX2", "FMA", "AVX512", "DOTPROD", "MATMUL_INT8")
"""Instruction sets without which decoding or prompts take half as long again, or more."""


class Broken(Exception):
    """The library cannot be loaded; `exit_code` is that of the process that tried."""

    def __init__(self, exit_code: int, last_words: str) -> None:
        super().__init__(last_words)
        self.exit_code, self.last_words = exit_code, last_words


def read_facts(command: Sequence[str]) -> LibraryFacts:
    """`command` starts `edgekv library`. Raises `Broken`."""
    try:
        done = subprocess.run(command, capture_output=True, timeout=SECONDS_TO_LOAD, check=False)
    except subprocess.TimeoutExpired:
        raise Broken(1, f"it took more than {SECONDS_TO_LOAD:g} seconds") from None
    if done.returncode:
        lines = done.stderr.decode("utf-8", "replace").strip().splitlines()
        raise Broken(done.returncode, lines[-1].removeprefix("edgekv: ") if lines else "")
    return msgspec.json.decode(done.stdout, type=LibraryFacts)


def examine_broken(host: Host, broken: Broken) -> Finding:
    mended = _another_build(host)
    if broken.exit_code == -getattr(signal, "SIGILL", 4):
        return fault("library", "llama.cpp was built for another processor than this one", mended)
    how = broken.last_words or f"its process ended with {broken.exit_code}"
    return fault("library", f"llama.cpp cannot be loaded: {how}", mended)


def _another_build(host: Host) -> str:
    return OTHER_BUNDLE if host.is_bundle else REINSTALL


def examine_library(host: Host, facts: LibraryFacts) -> Iterator[Finding]:
    others = [Path(path).name for path in facts.loaded if _is_ggml(path)]
    yield fine(
        "library",
        f"llama-cpp-python {facts.version}, {facts.path}, with {', '.join(others) or 'ggml'}; "
        f"backends: {', '.join(facts.backends)}",
    )
    yield from _origin(host, facts)
    yield from _instructions(host, facts)
    yield _workers(facts)
    yield from _c_libraries(facts)
    yield from _devices(host, facts)


def _is_ggml(path: str) -> bool:
    return "ggml" in Path(path).name


def _origin(host: Host, facts: LibraryFacts) -> Iterator[Finding]:
    folder = Path(facts.path).parent
    strays = [path for path in facts.loaded if _is_ggml(path) and Path(path).parent != folder]
    if not facts.has_bundled_path:
        strays.append(facts.path)
    if strays:
        named = [n for n in ("LLAMA_CPP_LIB_PATH", "LD_LIBRARY_PATH") if n in host.environment]
        yield warning(
            "library",
            f"not all of it comes from its own package: {', '.join(strays)}",
            f"unset {' '.join(named) or 'LLAMA_CPP_LIB_PATH LD_LIBRARY_PATH'}",
        )


def _instructions(host: Host, facts: LibraryFacts) -> Iterator[Finding]:
    present = instruction_sets(host)
    if present is None:
        yield fine("instructions", f"built with {', '.join(sorted(facts.features))}")
        return
    flags = X86_FLAGS | ARM_FLAGS
    built = {name for name in facts.features if name in flags}
    if missing := sorted(built - present):
        yield fault(
            "instructions",
            f"the library needs {', '.join(missing)}, which this processor does not have",
            _another_build(host),
        )
    elif unused := [name for name in WORTH_A_BUILD if name in present - built]:
        yield warning(
            "instructions",
            f"this processor has {', '.join(unused)}, which the library was built without",
            _another_build(host),
        )
    else:
        yield fine("instructions", f"needs and finds {', '.join(sorted(built)) or 'the basic set'}")


def instruction_sets(host: Host) -> frozenset[str] | None:
    """Those of ggml's that this processor has; None where the system does not tell."""
    for line in host.text("proc/cpuinfo").splitlines():
        name, _, rest = line.partition(":")
        if name.strip() in {"flags", "Features"}:
            has = set(rest.split())
            flags = X86_FLAGS if name.strip() == "flags" else ARM_FLAGS
            return frozenset(ours for ours, theirs in flags.items() if theirs in has)
    return None


def _workers(facts: LibraryFacts) -> Finding:
    if RPC in facts.backends:
        return fine("workers", "this llama.cpp can use workers, and be one: edgekv worker")
    return fine("workers", f"none can be used, and few need them; to have them, {BUILD_RPC}")


def _c_libraries(facts: LibraryFacts) -> Iterator[Finding]:
    openmp = [path for path in facts.loaded if "libgomp" in path or "libomp" in path]
    words = [facts.glibc or "", *(f"OpenMP from {path}" for path in openmp)]
    if any(words):
        yield fine("C libraries", ", ".join(filter(None, words)))


def _devices(host: Host, facts: LibraryFacts) -> Iterator[Finding]:
    budget = read_budget(facts.devices, host.machine(), Wish())
    for pool in budget.pools:
        names = [device.name for device in facts.devices if device.id in pool.device_ids]
        yield fine(
            "device",
            f"{'+'.join(pool.device_ids)} ({', '.join(names)}): {format_size(pool.budget_bytes)} "
            f"of {format_size(pool.total_bytes)} for a plan ({pool.source})",
        )
    for note in budget.notes:
        yield warning("device", note.rstrip("."), "look at it with its driver's own tool")
    yield from examine_nvidia(host, facts)
    if all(device.kind == "cpu" for device in facts.devices) and not hides_devices(host, facts):
        for graphics in graphics_in(host, facts.nvidia):
            yield warning(
                "device",
                f"this machine has {graphics.name}, and llama.cpp was built without it",
                graphics.remedy,
            )
