"""TLS: the server's certificate."""

import ssl
from pathlib import Path

from realtime_tts.errors import UnusableCertificate


def tls_context(certificate: Path, key: Path) -> ssl.SSLContext:
    """TLS 1.2 or later, from two PEM files.  Raises `UnusableCertificate`."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    for path in (certificate, key):
        try:
            path.open("rb").close()
        except OSError as error:
            raise UnusableCertificate(f"cannot read {path}: {error.strerror}") from None
    try:
        # An empty password: without one, OpenSSL would wait for a password at the terminal.
        context.load_cert_chain(certificate, key, password="")
    except (ssl.SSLError, ValueError) as error:
        reason = error.reason if isinstance(error, ssl.SSLError) else str(error)
        raise UnusableCertificate(
            f"{certificate} and {key} are not a PEM certificate chain and its private key without a password: {reason}"
        ) from None
    return context
