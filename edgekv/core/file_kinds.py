"""What a file is that somebody took for a model, told from its first bytes."""

from __future__ import annotations

SNIFFED_BYTES = 64

_KINDS = (
    (b"<", "a web page, so the download needed a login or went astray; download the file itself"),
    (b"version https://git-lfs", "a pointer of Git LFS and not the file; run 'git lfs pull'"),
    (b"PK\x03\x04", "a zip archive, as PyTorch packs its models; download a .gguf file"),
    (b"\x1f\x8b", "packed with gzip; unpack it first"),
    (b"(\xb5/\xfd", "packed with zstd; unpack it first"),
    (b"tjgg", "in the format that GGUF replaced in 2023; download a .gguf file"),
    (b"fmgg", "in the format that GGUF replaced in 2023; download a .gguf file"),
    (b"lmgg", "in the format that GGUF replaced in 2023; download a .gguf file"),
)
_HEADER_OF_SAFETENSORS = 8  # bytes of a length, then JSON


def is_gguf(beginning: bytes) -> bool:
    return beginning.startswith(b"GGUF")


def kind_of(beginning: bytes) -> str:
    """What the file is and what to do, to follow "it is"; `beginning` is no GGUF file's."""
    if not beginning:
        return "empty; download it again"
    for magic, kind in _KINDS:
        if beginning.lstrip().startswith(magic):
            return kind
    if beginning[_HEADER_OF_SAFETENSORS:].startswith(b'{"'):
        return "in the format of safetensors; download a .gguf file"
    return "not a GGUF model; download a .gguf file"
