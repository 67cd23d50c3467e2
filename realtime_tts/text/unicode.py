"""Text that can be encoded as UTF-8 and shown."""

MAX_PRINTED_CHARS = 200


def printable(text: str) -> str:
    """`encodable` text of at most `MAX_PRINTED_CHARS` characters, for error messages and logs."""
    return encodable(text[:MAX_PRINTED_CHARS])


def encodable(text: str) -> str:
    """Text with surrogate pairs joined and lone surrogates replaced by U+FFFD."""
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
