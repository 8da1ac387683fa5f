"""llama.cpp as a library: loaded once, version checked, its log routed.

`lib` is the one handle for every ggml and llama symbol. Opening libggml a second time would
load a second device registry, and devices registered there are silently not used.
"""

from __future__ import annotations

import ctypes
import logging
import os
import platform
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import llama_cpp
from llama_cpp import llama_cpp as api

from edgekv.budget.nvidia import driver, read_nvidia, with_second_opinion
from edgekv.core.library import TESTED_VERSIONS
from edgekv.core.nvidia import VISIBLE
from edgekv.core.plan import DeviceInfo, DeviceKind
from edgekv.errors import Unavailable
from edgekv.llama.layout import check_layout

lib: ctypes.CDLL = api._lib

_ERROR = 4
_LEVELS = {2: logging.INFO, 3: logging.WARNING, _ERROR: logging.ERROR}
"""ggml's levels; debug (1) is many thousands of lines and continuation (5) only dots."""

_KINDS: dict[str, DeviceKind] = {
    "CPU": "cpu",
    "CUDA": "cuda",
    "ROCm": "cuda",
    "Metal": "metal",
    "MTL": "metal",
    "Vulkan": "vulkan",
    "RPC": "rpc",
}
_ON_A_BUS: tuple[DeviceKind, ...] = ("cuda", "vulkan")
_INTEGRATED_GPU = 2  # GGML_BACKEND_DEVICE_TYPE_IGPU

_log = logging.getLogger("edgekv.llama")

_recorders: list[LogRecorder] = []
"""Every one there was: llama.cpp calls the last as long as the process lives, whoever holds it."""


class LogRecorder:
    """llama.cpp's log lines: passed to `logging`, and kept while someone records."""

    def __init__(self) -> None:
        self._lines: list[tuple[int, str]] = []
        self._is_recording = False
        self._callback = api.llama_log_callback(self._hear)
        api.llama_log_set(self._callback, None)

    def _hear(self, level: int, text: bytes, _: object) -> None:
        if level not in _LEVELS:
            return
        line = text.decode("utf-8", "replace").rstrip()
        _log.log(_LEVELS[level], "%s", line)
        if self._is_recording:
            self._lines.append((level, line))

    @contextmanager
    def recording(self) -> Iterator[list[tuple[int, str]]]:
        """The (level, line) pairs logged inside the block. Not to be nested."""
        self._lines, self._is_recording = [], True
        try:
            yield self._lines
        finally:
            self._is_recording = False

    def last_error(self) -> str:
        """Why the last recorded call failed, in the library's first words for it."""
        errors = [line for level, line in self._lines if level == _ERROR]
        if not errors:
            return "llama.cpp gave no reason"
        return errors[0].split(": ", 1)[-1]


def start() -> LogRecorder:
    """Initialise llama.cpp. Raises `Unavailable` for a release nobody has checked, and where none
    of its libraries runs on this processor.
    """
    version = llama_cpp.__version__
    if version not in TESTED_VERSIONS:
        raise Unavailable(
            f"llama-cpp-python {version} is not one this EdgeKV was checked with; "
            f"install llama-cpp-python=={TESTED_VERSIONS[-1]}."
        )
    recorder = LogRecorder()
    _recorders.append(recorder)
    check_layout()
    _load_backends()
    api.llama_backend_init()
    _declare_device_functions()
    if not any(handle.kind == "cpu" for handle in handles()):
        raise Unavailable(
            f"None of llama.cpp's libraries in {folder()} runs on this processor; compile one for "
            "it: make chat (in a clone of EdgeKV)."
        )
    return recorder


def folder() -> Path:
    """Where libllama and what it loads at run time are."""
    return Path(lib._name).parent


def _load_backends() -> None:
    """In a build for many processors, load the library that suits this one best.

    Such a build (GGML_BACKEND_DL) starts without any device; others have theirs linked in.
    """
    lib.ggml_backend_reg_count.restype = ctypes.c_size_t
    if not lib.ggml_backend_reg_count():
        lib.ggml_backend_load_all_from_path.argtypes = [ctypes.c_char_p]
        lib.ggml_backend_load_all_from_path.restype = None
        lib.ggml_backend_load_all_from_path(os.fsencode(folder()))


def _declare_device_functions() -> None:
    lib.ggml_backend_dev_count.restype = ctypes.c_size_t
    lib.ggml_backend_dev_get.argtypes = [ctypes.c_size_t]
    lib.ggml_backend_dev_get.restype = ctypes.c_void_p
    for name in ("ggml_backend_dev_name", "ggml_backend_dev_description"):
        function = getattr(lib, name)
        function.argtypes, function.restype = [ctypes.c_void_p], ctypes.c_char_p
    lib.ggml_backend_dev_type.argtypes = [ctypes.c_void_p]
    lib.ggml_backend_dev_type.restype = ctypes.c_int
    size = ctypes.POINTER(ctypes.c_size_t)
    lib.ggml_backend_dev_memory.argtypes = [ctypes.c_void_p, size, size]
    lib.ggml_backend_dev_memory.restype = None
    lib.ggml_backend_dev_get_props.argtypes = [ctypes.c_void_p, ctypes.POINTER(Properties)]
    lib.ggml_backend_dev_get_props.restype = None


class Properties(ctypes.Structure):
    """`ggml_backend_dev_props`."""

    _fields_ = [
        ("name", ctypes.c_char_p),
        ("description", ctypes.c_char_p),
        ("memory_free", ctypes.c_size_t),
        ("memory_total", ctypes.c_size_t),
        ("type", ctypes.c_int),
        ("device_id", ctypes.c_char_p),
        ("caps", ctypes.c_bool * 4),
    ]


class Handle(NamedTuple):
    """A device that can hold a model, by ggml's pointer to it."""

    pointer: int
    kind: DeviceKind

    @property
    def info(self) -> DeviceInfo:
        """What it reports now."""
        free, total = ctypes.c_size_t(), ctypes.c_size_t()
        lib.ggml_backend_dev_memory(self.pointer, ctypes.byref(free), ctypes.byref(total))
        # ggml's CPU device reports all memory as free, and a failed probe reports 0 of 0.
        known = self.kind != "cpu" and total.value > 0
        return DeviceInfo(
            id=lib.ggml_backend_dev_name(self.pointer).decode(),
            kind=self.kind,
            name=lib.ggml_backend_dev_description(self.pointer).decode("utf-8", "replace"),
            total_bytes=total.value,
            free_bytes=free.value if known else None,
            unified=is_unified(
                self.kind, lib.ggml_backend_dev_type(self.pointer), platform.machine()
            ),
            address=(self.properties.device_id or b"").decode() if self.kind in _ON_A_BUS else "",
        )

    @property
    def properties(self) -> Properties:
        """Valid as long as the library is loaded."""
        properties = Properties()
        lib.ggml_backend_dev_get_props(self.pointer, ctypes.byref(properties))
        return properties


def devices() -> tuple[DeviceInfo, ...]:
    """Every device ggml reports that can hold a model. Needs `start`."""
    drivers, visible = read_nvidia(driver()), os.environ.get(VISIBLE)
    return tuple(with_second_opinion(handle.info, drivers, visible) for handle in handles())


def handles() -> Iterator[Handle]:
    """Those devices, none of them asked. Needs `start`."""
    for number in range(lib.ggml_backend_dev_count()):
        pointer = lib.ggml_backend_dev_get(number)
        kind = _KINDS.get(lib.ggml_backend_dev_name(pointer).decode().rstrip("0123456789"))
        if kind is not None:  # BLAS and the like compute but hold no memory of their own
            yield Handle(pointer, kind)


def is_unified(kind: DeviceKind, ggml_type: int, processor: str) -> bool:
    """Whether a device has the host's memory and none of its own."""
    # Metal calls every device a GPU, also where it is part of Apple's own processors.
    return ggml_type == _INTEGRATED_GPU or (kind == "metal" and processor == "arm64")
