"""Runs a bundle, its children included, as on a processor of 2008: SSE4.2 and nothing newer.

QEMU translates for it. In a user namespace of its own the kernel hands every program to QEMU,
so nothing outside notices. Needs Linux 6.7 and the package qemu-user-static.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

EMULATOR = "qemu-x86_64-static"
PROCESSOR = "Nehalem"
PADDING, ITS_OWN = slice(9, 16), b"itself!"
"""Bytes of an ELF header that nobody reads. They tell QEMU itself, which runs as it is, from
what it runs."""
# The first bytes of a 64-bit program for x86, and which bits of them count (binfmt_misc).
MAGIC = r"\x7fELF\x02\x01\x01\x00" + r"\x00" * 8 + r"\x00\x00\x3e\x00"
MASK = r"\xff" * 7 + r"\x00" + r"\xff" * 8 + r"\x00\xff\xff\xff"

# $0 is QEMU, as this namespace registers it; F opens it once, whatever the root is later.
ENTER = (
    "mount -t binfmt_misc none /proc/sys/fs/binfmt_misc && "
    f"printf '%s' ':old:M::{MAGIC}:{MASK}:'\"$0\":F >/proc/sys/fs/binfmt_misc/register && "
    f'QEMU_CPU={PROCESSOR} exec "$@"'
)


def prefix(work: Path) -> list[str] | None:
    """What to put before a command to run it there; None where that cannot be done."""
    emulator = shutil.which(EMULATOR)
    if emulator is None or os.uname().machine != "x86_64":
        return None
    header = bytearray(Path(emulator).read_bytes())
    header[PADDING] = ITS_OWN
    own = work / "emulator"
    own.write_bytes(header)
    own.chmod(0o755)
    command = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", ENTER, str(own)]
    tried = subprocess.run([*command, "true"], capture_output=True, check=False)
    return command if tried.returncode == 0 else None
