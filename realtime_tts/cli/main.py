"""The command line: what each word does, how a server starts, and how signals end it."""

import asyncio
import os
import signal
import sys
import urllib.error
import urllib.request
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from types import FrameType
from typing import Annotated, Any, NoReturn

import msgspec
import typer

from realtime_tts import __version__
from realtime_tts.config import render as config_text
from realtime_tts.config import schema as configuration
from realtime_tts.config.schema import MetricsSection, ModelSection, ServerConfig, ServerSection
from realtime_tts.errors import RealtimeTTSError
from realtime_tts.ops import logs
from realtime_tts.server import api_keys as keys
from realtime_tts.server.addresses import is_loopback

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
ModelOption = Annotated[
    str,
    typer.Option(help="kokoro speaks English; tone only makes test tones; or the directory of a Qwen3-TTS checkpoint."),
]
ThreadsOption = Annotated[
    int | None, typer.Option(min=1, help="Threads that compute speech.  [default: the cores of this machine]")
]
ModelDirOption = Annotated[
    Path | None, typer.Option(exists=True, file_okay=False, help="Your own weights, in place of the embedded ones.")
]
SettingsOption = Annotated[
    list[str] | None, typer.Option("--set", help="An option of the model as NAME=VALUE; may be repeated.")
]
ConfigOption = Annotated[
    Path | None,
    typer.Option("--config", help="A TOML file; see `realtime-tts config --toml`.  [env: REALTIME_TTS_CONFIG]"),
]


def say_line(line: str) -> None:
    """Words for a person; stdout is kept for data."""
    print(line, file=sys.stderr, flush=True)  # noqa: T201


@app.command()
def serve(
    config: ConfigOption = None,
    host: Annotated[str | None, typer.Option(help="Address to listen on.  [default: 127.0.0.1]")] = None,
    port: Annotated[
        int | None, typer.Option(min=0, max=65535, help="Port to listen on; 0 takes a free one.  [default: 8000]")
    ] = None,
    model: Annotated[
        str | None,
        typer.Option(
            help="kokoro speaks English; tone only makes test tones; or a directory of Qwen3-TTS.  [default: kokoro]"
        ),
    ] = None,
    threads: ThreadsOption = None,
    model_dir: ModelDirOption = None,
    max_sessions: Annotated[
        int | None, typer.Option(min=1, help="Connections at once; one more gets 503.  [default: 512]")
    ] = None,
    max_wait: Annotated[
        float | None,
        typer.Option(
            help="Seconds that a new listener may wait for a place before being refused; -1: for ever.  [default: 0.5]"
        ),
    ] = None,
    scheduler: Annotated[
        str | None,
        typer.Option(help="deadline is ours; round_robin, policy_c, bounded_window, edf_only are for comparison."),
    ] = None,
    compare: Annotated[
        list[str] | None,
        typer.Option(
            help="Offer another scheduler beside it, such as policy_c, to clients that ask for it; may be repeated.  "
            "Each is an engine of its own and loads the model again: some 350 MB more for kokoro; of Qwen3-TTS on a "
            "GPU give --set slots=N too, or the first takes all the memory."
        ),
    ] = None,
    settings: SettingsOption = None,
    key_file: Annotated[
        Path | None, typer.Option(help="Who may come in: lines of `realtime-tts key`.  [default: nobody is asked]")
    ] = None,
    tls_cert: Annotated[Path | None, typer.Option(help="Certificate chain (PEM), for https and wss.")] = None,
    tls_key: Annotated[Path | None, typer.Option(help="Its private key (PEM).")] = None,
    allow_public: Annotated[
        bool | None,
        typer.Option("--allow-public", help="Listen beyond this machine without keys: anyone there may connect."),
    ] = None,
    drain: Annotated[
        float | None, typer.Option(help="Seconds that what has begun may go on after SIGTERM.  [default: 30]")
    ] = None,
    log_level: Annotated[str | None, typer.Option(help="debug, info, warning or error.  [default: info]")] = None,
    log_format: Annotated[str | None, typer.Option(help="console or json.  [default: console]")] = None,
) -> None:
    """Start the server: WebSocket, HTTP and the demo page on one port.

    Every setting, these and more, can also stand in a file or in the environment: `realtime-tts config` lists them.
    A flag goes before the environment, that before the file.

    Ctrl-C ends the server at once, with a word to every client.  SIGTERM lets what has begun come to its end first.
    A second signal ends the process there and then.
    """
    given: dict[str, tuple[str, object]] = {
        "server.host": ("--host", host),
        "server.port": ("--port", port),
        "server.max_sessions": ("--max-sessions", max_sessions),
        "server.tls_cert": ("--tls-cert", _text(tls_cert)),
        "server.tls_key": ("--tls-key", _text(tls_key)),
        "server.allow_public": ("--allow-public", allow_public),
        "server.drain_s": ("--drain", drain),
        "model.name": ("--model", model),
        "model.threads": ("--threads", threads),
        "model.dir": ("--model-dir", _text(model_dir)),
        "model.options": ("--set", configuration.options_in_words(settings, "flag --set") if settings else None),
        "engine.scheduler": ("--scheduler", scheduler),
        "engine.compare": ("--compare", compare),
        "engine.max_wait_s": ("--max-wait", "none" if max_wait is not None and max_wait < 0 else max_wait),
        "auth.key_file": ("--key-file", _text(key_file)),
        "logging.level": ("--log-level", log_level),
        "logging.format": ("--log-format", log_format),
    }
    flags = {path: (flag, value) for path, (flag, value) in given.items() if value is not None}
    resolved = configuration.load(config, flags)
    _check_who_may_come(resolved.config)
    logging = resolved.config.logging
    logs.configure(level=logging.level, json=logging.format == "json", log_text=logging.log_text)
    if resolved.unused:
        say_line(f"Not used: {', '.join(resolved.unused)}")
    _run(_serve(resolved.config))


def _text(path: Path | None) -> str | None:
    return None if path is None else str(path)


def _check_who_may_come(config: ServerConfig) -> None:
    """Nobody's voices should be open to the world by accident."""
    if config.auth.key_file is not None or config.auth.keys is not None or is_loopback(config.server.host):
        return
    if not config.server.allow_public:
        raise typer.BadParameter(
            f"{config.server.host} can be reached from other machines, and nobody is asked for a key: "
            "make one with `realtime-tts key` and give --key-file, or say --allow-public"
        )
    say_line(f"WARNING: whoever reaches {config.server.host} may use this server: it asks nobody for a key.")


async def _serve(config: ServerConfig) -> None:
    signals = Signals(asyncio.get_running_loop())
    from realtime_tts.cli.build import serving  # here, so that `--help` does not wait for a server's parts

    say_line(f"realtime-tts {__version__}: loading the model {config.model.name} ...")
    async with serving(config, say_line) as (url, server):
        signals.ready()
        say_line(f"Ready, listening on {url}")
        say_line(f"  In a browser:         {url}/")
        say_line(f'  From another shell:   realtime-tts say "Hello world." --url {url}')
        say_line("  The protocol:         protocol.md.  Ctrl-C ends the server.")
        if await signals.first() == signal.SIGTERM:
            say_line(f"Draining: what has begun may take {config.server.drain_s:g} s to end ...")
            await server.drain(config.server.drain_s)
        say_line("Stopping ...")
    say_line("Stopped.")


class Signals:
    """The first signal asks a running server to end; another one ends the process there and then.

    While a model loads there is nobody to say goodbye to: the first one is enough.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._received: asyncio.Future[int] = loop.create_future()
        _on_signals(_leave_unready)

    def ready(self) -> None:
        """A server runs now, and should end in good order."""
        for number in (signal.SIGINT, signal.SIGTERM):
            self._loop.add_signal_handler(number, self._take, number)

    async def first(self) -> int:
        return await self._received

    def _take(self, number: int) -> None:
        if not self._received.done():
            self._received.set_result(number)
        for each in (signal.SIGINT, signal.SIGTERM):
            self._loop.remove_signal_handler(each)
        _on_signals(_leave_at_once)


def _on_signals(handler: Callable[[int, FrameType | None], NoReturn]) -> None:
    """Not through the loop: it may be what hangs."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, handler)


def _leave_unready(number: int, frame: FrameType | None) -> NoReturn:
    if number == signal.SIGTERM:
        os._exit(0)  # ended as it was asked to, with nothing left undone
    _leave_at_once(number, frame)


def _leave_at_once(number: int, _frame: FrameType | None) -> NoReturn:
    """By the convention of shells, 128 + the signal.  Neither threads nor clean-up are waited for."""
    os._exit(128 + number)


@app.command("config")
def show_config(
    config: ConfigOption = None,
    toml: Annotated[
        bool, typer.Option("--toml", help="As a file for --config: every setting, with what it means.")
    ] = False,
) -> None:
    """Show every setting, its value and where that comes from.  Secrets are not shown.

    The environment's name of a setting is REALTIME_TTS_SECTION_NAME, such as REALTIME_TTS_SERVER_PORT; lists are
    written as a,b and `none` stands for no value.
    """
    resolved = configuration.load(config)
    print(config_text.template(resolved).rstrip() if toml else config_text.table(resolved))  # noqa: T201
    if resolved.unused:
        say_line(f"Not used: {', '.join(resolved.unused)}")


@app.command("key")
def make_key(
    name: Annotated[str, typer.Argument(help="Whose it is: letters, digits, dots, dashes, underscores.")],
    sessions: Annotated[int | None, typer.Option(min=1, help="Sessions at once.  [default: no limit]")] = None,
    chars_per_minute: Annotated[
        int | None, typer.Option(min=1, help="Characters spoken a minute.  [default: no limit]")
    ] = None,
) -> None:
    """Make a key:  realtime-tts key alice >> keys;  realtime-tts serve --key-file keys

    The line for the key file goes to standard output; it holds only a hash.  The key itself is shown once, on standard
    error: give it to whoever calls, who sends it as `Authorization: Bearer KEY`.
    """
    key = keys.generate_key()
    limits = {"sessions": sessions, "chars_per_minute": chars_per_minute}
    chosen = ",".join(f"{limit}={value}" for limit, value in limits.items() if value is not None)
    line = keys.key_line(name, key) + (f":{chosen}" if chosen else "")
    keys.KeyStore.from_lines([line])  # refuses here what the server would refuse
    say_line(f"The key of {name}, shown only now: {key}")
    print(line)  # noqa: T201


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
    _run(_say(text, output, config, url, ModelSection(name=model, threads=threads, dir=model_dir)))


async def _say(text: str, output: Path, config: dict[str, Any], url: str | None, model: ModelSection) -> None:
    from realtime_tts.cli import say as speaker

    async with _server_for(url, model) as base_url:
        summary = await speaker.speak(base_url, speaker.text_source(text), output, config, say_line)
    say_line(summary)


@asynccontextmanager
async def _server_for(url: str | None, model: ModelSection) -> AsyncIterator[str]:
    """The server that was named, or the one that runs here, or one of our own for as long as it is needed."""
    if url is not None:
        yield url
    elif await asyncio.to_thread(_runs_here):
        say_line(f"Using the server at {DEFAULT_URL}")
        yield DEFAULT_URL
    else:
        say_line(f"No server at {DEFAULT_URL}: loading the model {model.name} in this process ...")
        from realtime_tts.cli.build import serving

        config = ServerConfig(server=ServerSection(port=0), model=model, metrics=MetricsSection(enabled=False))
        async with serving(config, say_line) as (own_url, _server):
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

        name, folder = models.resolve(model)
        info = models.info(name) if folder is None else models.info(name, model_dir=folder)
        rows = [(voice.name, voice.language) for voice in info.voices]
        default = info.default_voice
    for name, language in rows:
        print(f"{name:<16} {language:<8} {'default' if name == default else ''}".rstrip())  # noqa: T201


@app.command()
def doctor(
    model: ModelOption = DEFAULT_MODEL,
    threads: ThreadsOption = None,
    model_dir: ModelDirOption = None,
    settings: SettingsOption = None,
    gpu_memory_gb: Annotated[
        float | None,
        typer.Option(min=1, help="Of Qwen3-TTS: what a GPU of this size would hold.  [default: the one here, or many]"),
    ] = None,
) -> None:
    """Check this installation: weights, voices, codecs, and how many streams this machine will hold.

    Of Qwen3-TTS nothing is loaded: the directory is checked by its files' headers, and what it takes of a GPU is
    reckoned.  `--model qwen3_tts` alone tells this of the published sizes.
    """
    from realtime_tts.cli.build import model_options
    from realtime_tts.cli.doctor import examine
    from realtime_tts.engine import models

    name, _folder = models.resolve(model)
    if gpu_memory_gb is not None and name != models.LOADS_DIRECTORIES:
        raise typer.BadParameter(f"--gpu-memory-gb is for Qwen3-TTS; {name} runs on the CPU")
    options = configuration.options_in_words(settings or (), "flag --set")
    section = ModelSection(name=model, threads=threads, dir=model_dir, options=options)
    healthy = examine(name, model_options(section, say_line), print, gpu_memory_gb)
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
