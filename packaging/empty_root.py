"""A root of its own for a bundle: the C library, zlib, and no Python, no shell, no tool."""

from __future__ import annotations

import platform
import shutil
import subprocess
from pathlib import Path

SYSTEM = Path(f"/lib/{platform.machine()}-linux-gnu")
"""Where Debian and its children have the libraries of this processor."""
NEEDED = (
    "ld-linux-*.so.*",
    "libc.so.6",
    "libm.so.6",
    "libdl.so.2",
    "libpthread.so.0",
    "librt.so.1",
    "libutil.so.1",
    "libresolv.so.2",
    "libz.so.1",
)
"""What a bundle takes from the system. PyInstaller's own start wants zlib."""

# What is mounted there is gone with the command.
ENTER = (
    'mount -t proc proc "$0/proc" && mount --bind /dev "$0/dev" && exec chroot "$0" '
    '/edgekv/edgekv "$@"'
)


def may_be_entered() -> bool:
    """Whether this system lets us mount and change the root; containers often do not."""
    tried = ["unshare", "--mount", "sh", "-c", "mount -t proc proc /proc && chroot / true"]
    permitted = subprocess.run(tried, capture_output=True, check=False).returncode == 0
    return permitted and SYSTEM.is_dir()


def furnish(root: Path, program: Path, model: Path) -> tuple[list[str], str]:
    """The command that runs a bundle's program in there, and the model's name as it sees it.

    What stands beside the program, in a folder, comes along.
    """
    for place in ("proc", "tmp", "dev", "lib64", "edgekv"):
        (root / place).mkdir(parents=True)
    for name in (found for pattern in NEEDED for found in SYSTEM.glob(pattern)):
        shutil.copy(name, root / "lib64" / name.name)
    (root / "lib").symlink_to("lib64")
    shutil.copy(program, root / "edgekv/edgekv")
    if (inside := program.parent / "_internal").exists():
        shutil.copytree(inside, root / "edgekv/_internal", symlinks=True)
    shutil.copy(model, root / "model.gguf")
    return ["unshare", "--mount", "sh", "-c", ENTER, str(root)], "/model.gguf"
