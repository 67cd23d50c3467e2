"""Command `replica`: one engine, for servers in other processes and on other machines."""

import asyncio
import signal
from typing import Annotated

import typer

from realtime_tts.cli.options import MODEL_SETTINGS, with_settings
from realtime_tts.cli.terminal import print_status, run
from realtime_tts.config.load import Resolved
from realtime_tts.config.schema import ServerConfig
from realtime_tts.ops import logs
from realtime_tts.server.addresses import is_loopback


@with_settings(*MODEL_SETTINGS, "logging.level", "logging.format")
def replica(
    resolved: Resolved,
    listen: Annotated[str, typer.Option(metavar="HOST:PORT", help="Address to listen on.")] = "127.0.0.1:9000",
) -> None:
    """Serve one engine to servers, which use it with `realtime-tts serve --replica HOST:PORT`.

    Server and replica need the same secret in REALTIME_TTS_CLUSTER_TOKEN, such as the output of `openssl rand -hex 32`.
    The connection is not encrypted: use it in a private network.  It also answers GET /healthz and GET /metrics.
    """
    host, _, port = listen.rpartition(":")
    if not host or not port.isdecimal() or int(port) > 65_535:
        raise typer.BadParameter(f"{listen!r} is not HOST:PORT", param_hint="--listen")
    if resolved.config.cluster.token is None:
        raise typer.BadParameter("set REALTIME_TTS_CLUSTER_TOKEN, such as to the output of `openssl rand -hex 32`")
    if len(resolved.config.model.name) != 1:
        raise typer.BadParameter("a replica serves one model", param_hint="--model")
    logging = resolved.config.logging
    logs.configure(level=logging.level, json=logging.format == "json", log_text=logging.log_text)
    run(_serve(resolved.config, host.strip("[]"), int(port)))


async def _serve(config: ServerConfig, host: str, port: int) -> None:
    from realtime_tts.cli.build import replica_serving  # imports numpy and aiohttp, which `--help` does not need

    ended = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, ended.set)
    async with replica_serving(config, host, port, print_status) as actual_port:
        if not is_loopback(host):
            print_status("WARNING: everyone on this network can try the token, and read the audio.")
        print_status(f"Ready, listening on {host}:{actual_port}")
        await ended.wait()
    print_status("Stopped.")
