"""The command line, and the only place where the parts are put together."""

import asyncio
import ipaddress
import logging
import signal
import sys
import urllib.error
import urllib.request
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer

from realtime_tts import __version__
from realtime_tts.errors import RealtimeTTSError

app = typer.Typer(
    name="realtime-tts",
    help="A realtime voice server: stream text in over a WebSocket, hear speech at once, without a gap.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)

DEFAULT_MODEL = "kokoro"
DEFAULT_URL = "http://127.0.0.1:8000"
DEFAULT_SESSIONS = 512
"""Sockets are cheap: how many may *speak* at once is for admission to say."""

ModelOption = Annotated[str, typer.Option(help="kokoro speaks English; tone only makes test tones, without weights.")]
ThreadsOption = Annotated[
    int | None, typer.Option(min=1, help="Threads that compute speech.  [default: the cores of this machine]")
]
ModelDirOption = Annotated[
    Path | None, typer.Option(exists=True, file_okay=False, help="Your own weights, in place of the embedded ones.")
]


SetOption = Annotated[
    list[str] | None, typer.Option("--set", help="An option of the model as NAME=VALUE; may be repeated.")
]


def say_line(line: str) -> None:
    """Words for a person; stdout is kept for data."""
    print(line, file=sys.stderr, flush=True)  # noqa: T201


def model_options(
    model: str, threads: int | None, model_dir: Path | None, settings: list[str] | None = None
) -> dict[str, Any]:
    chosen: dict[str, Any] = {"threads": threads, "model_dir": model_dir}
    options = {name: value for name, value in chosen.items() if value is not None}
    for setting in settings or []:
        name, equals, value = setting.partition("=")
        if not equals:
            raise typer.BadParameter(f"{setting!r} is not NAME=VALUE")
        try:
            options[name] = msgspec.json.decode(value)  # numbers, true and false
        except msgspec.DecodeError:
            options[name] = value
    if model == DEFAULT_MODEL:
        options["progress"] = say_line
    return options


@asynccontextmanager
async def serving(
    model: str,
    options: dict[str, Any],
    *,
    host: str = "127.0.0.1",
    port: int = 0,
    max_sessions: int = DEFAULT_SESSIONS,
    scheduling: dict[str, Any] | None = None,
) -> AsyncIterator[str]:
    """Builds a model, an engine and a server; yields its URL, and ends all of them when the block ends."""
    # Imported here, so that `--help` and `say --url` do not wait for a server's parts.
    from realtime_tts.clock import MonotonicClock
    from realtime_tts.engine import models
    from realtime_tts.engine.config import EngineConfig
    from realtime_tts.engine.worker import EngineWorker
    from realtime_tts.server import Server, ServerLimits, listening

    clock = MonotonicClock()
    try:
        config = EngineConfig(**(scheduling or {}))
    except ValueError as error:
        raise RealtimeTTSError(str(error)) from None
    engine = EngineWorker(await asyncio.to_thread(models.build, model, **options), clock, config=config)
    engine.start()
    try:
        async with listening(Server(engine, clock, ServerLimits(max_sessions=max_sessions)), host, port) as url:
            yield url
    finally:
        await engine.stop()


@app.command()
def serve(
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port to listen on; 0 takes a free one.")] = 8000,
    model: ModelOption = DEFAULT_MODEL,
    threads: ThreadsOption = None,
    model_dir: ModelDirOption = None,
    max_sessions: Annotated[
        int, typer.Option(min=1, help="Connections at once; one more gets 503.")
    ] = DEFAULT_SESSIONS,
    max_wait: Annotated[
        float, typer.Option(help="Seconds that a new listener may wait for a place before being refused; -1: for ever.")
    ] = 0.5,
    scheduler: Annotated[
        str,
        typer.Option(help="deadline is ours; round_robin, policy_c, bounded_window, edf_only are for comparison."),
    ] = "deadline",
    settings: SetOption = None,
    allow_public: Annotated[
        bool, typer.Option("--allow-public", help="Listen beyond this machine, though anyone there may then connect.")
    ] = False,
    log_level: Annotated[str, typer.Option(help="debug, info, warning or error.")] = "info",
) -> None:
    """Start the server: WebSocket, HTTP and the demo page on one port.  Ctrl-C ends it."""
    if not allow_public and not _is_loopback(host):
        raise typer.BadParameter(
            f"{host} can be reached from other machines, and this server asks nobody for a key: "
            "put a proxy that does in front, and say --allow-public"
        )
    logging.basicConfig(level=log_level.upper(), format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    options = model_options(model, threads, model_dir, settings)
    scheduling = {"scheduler": scheduler, "max_wait_s": None if max_wait < 0 else max_wait}
    _run(_serve(model, options, host, port, max_sessions, scheduling))


async def _serve(
    model: str, options: dict[str, Any], host: str, port: int, max_sessions: int, scheduling: dict[str, Any]
) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    say_line(f"realtime-tts {__version__}: loading the model {model} ...")
    async with serving(model, options, host=host, port=port, max_sessions=max_sessions, scheduling=scheduling) as url:
        say_line(f"Ready, listening on {url}")
        say_line(f"  In a browser:         {url}/")
        say_line(f'  From another shell:   realtime-tts say "Hello world." --url {url}')
        say_line("  The protocol:         protocol.md.  Ctrl-C ends the server.")
        await stop.wait()
        say_line("Stopping ...")
    say_line("Stopped.")


@app.command()
def say(
    text: Annotated[str, typer.Argument(help="What to say; - reads standard input as it comes.")],
    output: Annotated[
        Path, typer.Option("--output", "-o", help="A .wav file; - writes raw 16-bit mono PCM to standard output.")
    ] = Path("speech.wav"),
    voice: Annotated[str | None, typer.Option(help="See `realtime-tts voices`.")] = None,
    speed: Annotated[float, typer.Option(min=0.25, max=4.0, help="1.0 is the voice's own pace.")] = 1.0,
    sample_rate: Annotated[int | None, typer.Option(help="8000 to 48000 Hz.  [default: the model's]")] = None,
    url: Annotated[
        str | None,
        typer.Option(help=f"A running server.  [default: {DEFAULT_URL} if one runs there, else an engine in process]"),
    ] = None,
    model: ModelOption = DEFAULT_MODEL,
    threads: ThreadsOption = None,
    model_dir: ModelDirOption = None,
) -> None:
    """Speak a text into a file, while it still arrives:  llm "Tell me a story" | realtime-tts say - -o - | aplay ..."""
    config: dict[str, Any] = {"voice": voice, "speed": speed, "sample_rate": sample_rate}
    _run(_say(text, output, config, url, model, model_options(model, threads, model_dir)))


async def _say(
    text: str, output: Path, config: dict[str, Any], url: str | None, model: str, options: dict[str, Any]
) -> None:
    from realtime_tts import say as speaker

    async with _server_for(url, model, options) as base_url:
        summary = await speaker.speak(base_url, speaker.text_source(text), output, config, say_line)
    say_line(summary)


@asynccontextmanager
async def _server_for(url: str | None, model: str, options: dict[str, Any]) -> AsyncIterator[str]:
    """The server that was named, or the one that runs here, or one of our own for as long as it is needed."""
    if url is not None:
        yield url
    elif await asyncio.to_thread(_runs_here):
        say_line(f"Using the server at {DEFAULT_URL}")
        yield DEFAULT_URL
    else:
        say_line(f"No server at {DEFAULT_URL}: loading the model {model} in this process ...")
        async with serving(model, options) as own_url:
            yield own_url


@app.command()
def voices(
    url: Annotated[str | None, typer.Option(help="Ask a running server.  [default: the model's own list]")] = None,
    model: ModelOption = DEFAULT_MODEL,
) -> None:
    """List the voices, one a line: name, language, and which is the default."""
    if url is not None:
        listing = _get_json(f"{url.rstrip('/')}/v1/audio/voices")
        rows = [(voice["name"], voice["language"]) for voice in listing["voices"]]
        default = listing["default"]
    else:
        from realtime_tts.engine import models

        info = models.info(model)
        rows = [(voice.name, voice.language) for voice in info.voices]
        default = info.default_voice
    for name, language in rows:
        print(f"{name:<16} {language:<8} {'default' if name == default else ''}".rstrip())  # noqa: T201


@app.command()
def doctor(threads: ThreadsOption = None, model_dir: ModelDirOption = None) -> None:
    """Check this installation: weights, voices, codecs, and how many streams this machine will hold."""
    from realtime_tts.doctor import examine

    healthy = examine(model_options(DEFAULT_MODEL, threads, model_dir), print)
    raise typer.Exit(0 if healthy else 1)


@app.callback(invoke_without_command=True)
def root(version: Annotated[bool, typer.Option("--version", help="Print the version and leave.")] = False) -> None:
    if version:
        print(__version__)  # noqa: T201
        raise typer.Exit


def main() -> None:
    try:
        app()
    except RealtimeTTSError as error:
        say_line(f"Error: {error}")
        sys.exit(1)


def _run(work: Any) -> None:
    """Runs a command on uvloop where there is one."""
    factory: Callable[[], asyncio.AbstractEventLoop] | None = None
    if sys.platform != "win32":
        import uvloop

        factory = uvloop.new_event_loop
    with asyncio.Runner(loop_factory=factory) as runner:
        runner.run(work)


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _get_json(url: str) -> Any:
    try:
        with urllib.request.urlopen(url, timeout=5) as answer:
            return msgspec.json.decode(answer.read())
    except (OSError, msgspec.DecodeError) as error:
        raise RealtimeTTSError(f"no answer from {url}: {error}") from None


def _runs_here() -> bool:
    try:
        return bool(_get_json(f"{DEFAULT_URL}/readyz")["ready"])
    except (RealtimeTTSError, KeyError, TypeError):
        return False
