"""The addresses of workers, as people write them: HOST or HOST:PORT, commas between."""

from __future__ import annotations

import re

PORT = 8643
"""Where a worker listens unless told otherwise."""
MOST = 15
"""llama.cpp tells 16 devices apart that hold layers; one is left for this machine's graphics."""

_HOST = re.compile(r"[A-Za-z0-9]([A-Za-z0-9.-]{0,251}[A-Za-z0-9])?")


def parse_workers(text: str) -> tuple[str, ...]:
    """ "ada,10.0.0.5:9000" → ("ada:8643", "10.0.0.5:9000").

    Raises `ValueError`, whose text is a sentence for the user.
    """
    addresses = tuple(_address(part.strip()) for part in text.split(","))
    for number, address in enumerate(addresses):
        if address in addresses[:number]:
            raise ValueError(f"The worker {address} is named twice; name it once.")
    if len(addresses) > MOST:
        raise ValueError(f"{len(addresses)} workers are too many; name at most {MOST}.")
    return addresses


def _address(text: str) -> str:
    host, colon, port = text.partition(":")
    number = port if colon else str(PORT)
    if not _HOST.fullmatch(host) or not re.fullmatch("[0-9]{1,5}", number):
        raise ValueError(
            f"'{text}' is not the address of a worker; write HOST:PORT, like 10.0.0.5:{PORT}."
        )
    if not 1 <= int(number) <= 65535:
        raise ValueError(f"'{text}' has no port from 1 to 65535; 'edgekv worker' tells its own.")
    return f"{host}:{int(number)}"
