"""Command `serve`: starts the server, and stops it on a signal."""

import asyncio
import os
import signal
from types import FrameType
from typing import NoReturn

import typer

from realtime_tts import __version__
from realtime_tts.cli.options import with_settings
from realtime_tts.cli.terminal import print_status, run
from realtime_tts.config.load import Resolved
from realtime_tts.config.schema import FLAGS, ServerConfig, ServerSection
from realtime_tts.ops import logs
from realtime_tts.server.addresses import is_loopback

SIGNALS = (signal.SIGINT, signal.SIGTERM)


@with_settings(*FLAGS)
def serve(resolved: Resolved) -> None:
    """Start the server: WebSocket, HTTP API and demo page on one port.

    These and further settings can also be in a TOML file or in environment variables: `realtime-tts config` lists
    them, by the names in <...>.  A flag overrides an environment variable, which overrides the file.

    Ctrl-C stops the server at once; it sends every client an error first.  SIGTERM lets open sessions finish first.  A
    second signal ends the process immediately.
    """
    _require_authentication(resolved.config)
    _warn_about_origins(resolved.config.server)
    logging = resolved.config.logging
    logs.configure(level=logging.level, json=logging.format == "json", log_text=logging.log_text)
    if resolved.unused:
        print_status(f"Not used: {', '.join(resolved.unused)}")
    run(serve_until_signal(resolved.config))


def _require_authentication(config: ServerConfig) -> None:
    """Other machines may use the server only with API keys, unless the operator explicitly allows it."""
    host = config.server.host
    if config.auth.key_file is not None or config.auth.keys is not None or is_loopback(host):
        return
    if not config.server.allow_public:
        raise typer.BadParameter(
            f"other machines can reach {host}, and there are no API keys: make a key with `realtime-tts key` and pass"
            " --key-file, or pass --allow-public"
        )
    print_status(f"WARNING: everyone who can reach {host} can use this server: it requires no API key.")


def _warn_about_origins(server: ServerSection) -> None:
    if "*" in server.origins:
        print_status('WARNING: any web page that is open in a browser can use this server: server.origins has "*".')
    elif "null" in server.origins:
        print_status('WARNING: any HTML file and any sandboxed page can use this server: server.origins has "null".')


async def serve_until_signal(config: ServerConfig) -> None:
    for number in SIGNALS:
        signal.signal(number, _exit_while_loading)
    from realtime_tts.cli.build import serving  # imports numpy and aiohttp, which `--help` does not need

    print_status(f"realtime-tts {__version__}")
    async with serving(config, print_status) as (url, server):
        received = _first_signal(asyncio.get_running_loop())
        print_status(f"Ready, listening on {url}")
        print_status(f"  In a browser:         {url}/")
        print_status(f"  The HTTP API:         {url}/docs")
        print_status(f'  From another shell:   realtime-tts say "Hello world." --url {url}')
        print_status("  The protocol:         protocol.md.  Ctrl-C stops the server.")
        if await received == signal.SIGTERM:
            print_status(f"Draining: open sessions have {config.server.drain_s:g} s to finish ...")
            await server.drain(config.server.drain_s)
        print_status("Stopping ...")
    print_status("Stopped.")


def _first_signal(loop: asyncio.AbstractEventLoop) -> asyncio.Future[int]:
    """The number of the next signal.  The one after it ends the process."""
    received: asyncio.Future[int] = loop.create_future()

    def on_signal(number: int) -> None:
        if received.done():
            _exit(number)
        received.set_result(number)
        for each in SIGNALS:
            loop.remove_signal_handler(each)
            signal.signal(each, _exit)  # not through the loop, which may be blocked

    for each in SIGNALS:
        loop.add_signal_handler(each, on_signal, each)
    return received


def _exit_while_loading(number: int, _frame: FrameType | None) -> NoReturn:
    """After SIGTERM the status is 0: no session was open."""
    os._exit(0 if number == signal.SIGTERM else 128 + number)


def _exit(number: int, _frame: FrameType | None = None) -> NoReturn:
    """Exits with the status of shells, 128 + signal, and does not wait for threads."""
    os._exit(128 + number)
