"""Command `say`: speaks a text into a file, through a running server or an engine of its own."""

import asyncio
import urllib.error
import urllib.request
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer

from realtime_tts.cli.options import MODEL_SETTINGS, with_settings
from realtime_tts.cli.terminal import print_status, run
from realtime_tts.config.load import Resolved
from realtime_tts.config.schema import MetricsSection, ModelSection, ServerConfig, ServerSection
from realtime_tts.errors import RealtimeTTSError

DEFAULT_URL = "http://127.0.0.1:8000"


@with_settings(*MODEL_SETTINGS)
def say(
    resolved: Resolved,
    text: Annotated[str, typer.Argument(help="Text to speak; - reads standard input while it is written.")],
    output: Annotated[
        Path, typer.Option("--output", "-o", help="A .wav file; - writes raw 16-bit mono PCM to standard output.")
    ] = Path("speech.wav"),
    voice: Annotated[str | None, typer.Option(help="See `realtime-tts voices`.  [default: the model's]")] = None,
    speed: Annotated[float, typer.Option(min=0.25, max=4.0, help="1.0 is the normal speed of the voice.")] = 1.0,
    sample_rate: Annotated[int | None, typer.Option(help="8000 to 48000 Hz.  [default: the model's]")] = None,
    url: Annotated[
        str | None,
        typer.Option(help=f"A running server.  [default: {DEFAULT_URL} if it runs, else an engine in this process]"),
    ] = None,
) -> None:
    """Speak a text into a file while the text arrives:  llm "Tell me a story" | realtime-tts say - -o - | aplay ..."""
    config: dict[str, Any] = {"voice": voice, "speed": speed, "sample_rate": sample_rate}
    run(_say(text, output, config, url, resolved.config.model))


async def _say(text: str, output: Path, config: dict[str, Any], url: str | None, model: ModelSection) -> None:
    from realtime_tts.cli.speak import speak, text_source  # imports a WebSocket client, which `--help` does not need

    async with _server(url, model) as base_url:
        summary = await speak(base_url, text_source(text), output, config, print_status)
    print_status(summary)


@asynccontextmanager
async def _server(url: str | None, model: ModelSection) -> AsyncIterator[str]:
    """The server at `url`, else the one at the default address, else one of our own until the end of the block."""
    if url is not None:
        yield url
    elif await asyncio.to_thread(_is_ready, DEFAULT_URL):
        print_status(f"Using the server at {DEFAULT_URL}")
        yield DEFAULT_URL
    else:
        print_status(f"No server at {DEFAULT_URL}: the model is loaded in this process")
        from realtime_tts.cli.build import serving

        config = ServerConfig(server=ServerSection(port=0), model=model, metrics=MetricsSection(enabled=False))
        async with serving(config, print_status) as (own_url, _server):
            yield own_url


def _is_ready(url: str) -> bool:
    try:
        return bool(get_json(f"{url}/readyz")["ready"])
    except (RealtimeTTSError, KeyError, TypeError):
        return False


def get_json(url: str) -> Any:
    """Blocks.  Raises `RealtimeTTSError`."""
    try:
        with urllib.request.urlopen(url, timeout=5) as response:
            return msgspec.json.decode(response.read())
    except (OSError, msgspec.DecodeError) as error:
        raise RealtimeTTSError(f"no answer from {url}: {error}") from None
