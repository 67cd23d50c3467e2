"""Command `key`: makes an API key, and the line for the key file that accepts it."""

from typing import Annotated

import typer

from realtime_tts.cli.terminal import print_status
from realtime_tts.server.api_keys import KeyStore, generate_key, key_line


def key(
    name: Annotated[str, typer.Argument(help="Name of the key: letters, digits, dots, dashes and underscores.")],
    sessions: Annotated[int | None, typer.Option(min=1, help="Limit of open sessions.  [default: none]")] = None,
    chars_per_minute: Annotated[
        int | None, typer.Option(min=1, help="Limit of spoken characters per minute.  [default: none]")
    ] = None,
) -> None:
    """Make an API key:  realtime-tts key alice >> keys;  realtime-tts serve --key-file keys

    Standard output gets the line for the key file, which contains a hash of the key.  Standard error gets the key
    itself, once.  Clients send it as `Authorization: Bearer KEY`.
    """
    secret = generate_key()
    limits = {"sessions": sessions, "chars_per_minute": chars_per_minute}
    given = ",".join(f"{limit}={value}" for limit, value in limits.items() if value is not None)
    line = key_line(name, secret) + (f":{given}" if given else "")
    KeyStore.from_lines([line])  # raises what the server would raise
    print_status(f"The key of {name}, shown only now: {secret}")
    print(line)  # noqa: T201
