"""Makes the bundle of this machine: EdgeKV as a folder, as an archive of it, and as one file.

    python packaging/bundle.py --libraries build/llama [--model models/STARTER.gguf] [--out dist]
    python packaging/bundle.py      # with the llama.cpp of this environment, for this processor

Needs the environment of the checks (`make check` makes it). On Linux the result runs wherever the
C library is at least as new as here, so build in packaging/linux.sh's old one to give it away.
"""

from __future__ import annotations

import argparse
import lzma
import os
import platform
import subprocess
import sys
import tarfile
import zipfile
from importlib.util import find_spec
from pathlib import Path

from libraries import gather

PACKAGING = Path(__file__).resolve().parent
SYSTEMS = {"linux": "linux", "darwin": "macos", "win32": "windows"}


def main() -> None:
    asked = _arguments()
    work = asked.out.resolve().parent / "build"
    libraries = asked.libraries or _installed(work / "installed")
    environment = {"EDGEKV_LLAMA_LIBRARIES": str(libraries.resolve())}
    if asked.model is not None:
        environment["EDGEKV_BUNDLE_MODEL"] = str(asked.model.resolve())
    build = [sys.executable, "-m", "PyInstaller", "--noconfirm", "--log-level", "WARN"]
    places = ["--distpath", asked.out, "--workpath", work / "bundle"]
    subprocess.run(
        [*build, *places, PACKAGING / "edgekv.spec"], check=True, env=os.environ | environment
    )
    name = f"edgekv-{_version()}-{SYSTEMS[sys.platform]}-{platform.machine().lower()}"
    if asked.libraries is None:
        name += "-native"
    pack = _pack_zip if sys.platform == "win32" else _pack_tar
    # What is nothing to give away need not be small.
    preset = 1 if asked.libraries is None else 6
    print(pack(asked.out / "edgekv", asked.out, name, preset))  # noqa: T201


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--libraries", type=Path, help="from build_library.py")
    parser.add_argument("--model", type=Path, help="a .gguf file that travels along")
    parser.add_argument("--out", type=Path, default=PACKAGING.parent / "dist")
    return parser.parse_args()


def _installed(folder: Path) -> Path:
    """The libraries of this environment, gathered in `folder`. Loading them is not needed."""
    bindings = find_spec("llama_cpp")
    assert bindings is not None
    assert bindings.origin is not None
    gather(Path(bindings.origin).parent / "lib", folder)
    return folder


def _version() -> str:
    sys.path.insert(0, str(PACKAGING.parent))
    from edgekv import __version__

    return __version__


def _pack_tar(folder: Path, out: Path, name: str, preset: int) -> Path:
    """Everything below one folder, links and run bits as they are, nobody's own.

    `preset` is xz's: 0 is fast, 9 is small.
    """

    def nobodys(entry: tarfile.TarInfo) -> tarfile.TarInfo:
        entry.uid = entry.gid = 0
        entry.uname = entry.gname = ""
        entry.mode = 0o755 if entry.isdir() or entry.mode & 0o100 else 0o644
        return entry

    path = out / f"{name}.tar.xz"
    with (
        lzma.open(path, "wb", preset=preset) as stream,
        tarfile.open(fileobj=stream, mode="w") as tar,
    ):
        tar.add(folder, name, filter=nobodys)
    return path


def _pack_zip(folder: Path, out: Path, name: str, preset: int) -> Path:
    """For Windows, which has neither links nor run bits to lose."""
    path = out / f"{name}.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=preset) as archive:
        for file in sorted(folder.rglob("*")):
            if file.is_file():
                archive.write(file, Path(name, file.relative_to(folder)))
    return path


if __name__ == "__main__":
    main()
