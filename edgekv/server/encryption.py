"""The certificate that a server shows, and the key that proves it."""

from __future__ import annotations

import ssl
from pathlib import Path

from edgekv.errors import Unavailable


def encryption(certificate: Path, key: Path | None) -> ssl.SSLContext:
    """TLS 1.2 or newer; without `key` the certificate's file holds it.

    Raises `Unavailable` if the two cannot be used.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    try:
        # An empty passphrase instead of a question on the terminal.
        context.load_cert_chain(certificate, key, password="")
    except OSError as error:
        reason = getattr(error, "reason", None) or error.strerror or str(error)
        raise Unavailable(
            f"{key or certificate} is not the key of {certificate} ({_in_words(reason)}); "
            "name a PEM certificate with --tls-cert and its key, without a passphrase, "
            "with --tls-key."
        ) from None
    return context


def _in_words(reason: str) -> str:
    return reason.lower().replace("_", " ")
