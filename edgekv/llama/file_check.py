"""Whether the file of a model is whole, and with it all files of the set it belongs to.

llama.cpp finds out too, but late and in words about tensors.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from pathlib import Path

from edgekv.core.file_kinds import SNIFFED_BYTES, is_gguf, kind_of
from edgekv.core.splits import SplitName, read_split_name
from edgekv.errors import DamagedModel, ModelError
from edgekv.llama.gguf import Header, read_header
from edgekv.llama.library import LogRecorder

_log = logging.getLogger(__name__)


def check_file(path: str, log: LogRecorder) -> Header:
    """The header of the model at `path`, with the sizes of all its files together.

    Raises `DamagedModel` for a file that is cut or a set that does not belong together, and
    `ModelError` for anything else that is no model.
    """
    file = Path(path)
    header = _check_one(file, log)
    count = _number(header, "split.count")
    if count <= 1:
        return header
    split = read_split_name(file.name)
    if split is None or split.count != count or split.number != 1:
        raise DamagedModel(
            f"{path} says that it is file {_number(header, 'split.no') + 1} of {count} of a model, "
            f"but its name does not; give all of them the names they were published under, like "
            f"{SplitName('NAME', 1, count)}, and do not join them."
        )
    headers = [header, *(_check_part(file, split, n, log) for n in range(2, count + 1))]
    _check_tensors(file, headers)
    return replace(
        header,
        tensor_bytes=sum(one.tensor_bytes for one in headers),
        file_bytes=sum(one.file_bytes for one in headers),
        num_tensors=sum(one.num_tensors for one in headers),
        tensors=tuple(tensor for one in headers for tensor in one.tensors),
    )


def _check_part(first: Path, split: SplitName, number: int, log: LogRecorder) -> Header:
    name = str(replace(split, number=number))
    header = _check_one(first.with_name(name), log)
    told = _number(header, "split.no") + 1, _number(header, "split.count")
    if told != (number, split.count):
        raise DamagedModel(
            f"{name} is not what its name says: it is file {told[0]} of {told[1]} of a model; "
            "get the file of this name again."
        )
    return header


def _check_tensors(first: Path, headers: list[Header]) -> None:
    """All files together hold as many tensors as the first one says, if they are of one model."""
    promised = _number(headers[0], "split.tensors.count")
    there = sum(header.num_tensors for header in headers)
    if promised and there != promised:
        raise DamagedModel(
            f"The files beside {first} are of different models: they hold {there} tensors and "
            f"the first says {promised}; get them all from one repository."
        )


def _check_one(file: Path, log: LogRecorder) -> Header:
    try:
        with file.open("rb") as stream:
            beginning = stream.read(SNIFFED_BYTES)
    except FileNotFoundError:
        raise ModelError(f"There is no model file at {file}; check the path.") from None
    except IsADirectoryError:
        raise ModelError(f"{file} is a folder; name the .gguf file in it.") from None
    except OSError as error:
        raise ModelError(f"{file} cannot be read: {error.strerror}.") from None
    if not is_gguf(beginning):
        raise DamagedModel(f"{file} is {kind_of(beginning)}.")
    size = file.stat().st_size
    with log.recording():
        header = read_header(str(file))
    if header is None:
        raise DamagedModel(
            f"{file} is damaged, or cut short after {size:,} bytes ({log.last_error()}); "
            "download it again."
        )
    if size < header.file_bytes:
        raise DamagedModel(
            f"{file} is cut short: it should have {header.file_bytes:,} bytes "
            f"and has {size:,}; download it again."
        )
    if size > header.file_bytes:
        extra = size - header.file_bytes
        _log.warning("%s has %s bytes behind its last tensor; they are not used.", file, extra)
    return replace(header, file_bytes=size)


def _number(header: Header, key: str) -> int:
    text = header.metadata.get(key, "")
    return int(text) if text.isdigit() else 0
