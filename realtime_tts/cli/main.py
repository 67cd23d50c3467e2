"""Command line: the commands of `realtime-tts`."""

import sys
from typing import Annotated

import typer

from realtime_tts import __version__
from realtime_tts.cli.explain import explain
from realtime_tts.cli.keys import key
from realtime_tts.cli.options import MODEL_SETTINGS, with_settings
from realtime_tts.cli.replica import replica
from realtime_tts.cli.say import get_json, say
from realtime_tts.cli.serve import serve
from realtime_tts.cli.terminal import exhausted_resource, print_status
from realtime_tts.config.load import Resolved
from realtime_tts.config.render import table, template
from realtime_tts.errors import RealtimeTTSError

app = typer.Typer(
    name="realtime-tts",
    help="Realtime text-to-speech server: send text over a WebSocket, and receive speech while you write.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
app.command()(serve)
app.command()(replica)
app.command()(say)
app.command()(explain)


@app.command()
@with_settings(*MODEL_SETTINGS)
def voices(
    resolved: Resolved,
    url: Annotated[str | None, typer.Option(help="Ask a running server.  [default: the model's own list]")] = None,
) -> None:
    """List the voices, one per line: name, language, and which one is the default.  Then the aliases: further names.

    Models that mix voices also accept mixes of these, such as "af_bella(2)+af_sky".
    """
    if url is not None:
        listing = get_json(f"{url.rstrip('/')}/v1/audio/voices")
        aliases = list(listing["aliases"].items())
        rows = [
            (each["name"], each["language"], each["name"] == listing["default"])
            for each in listing["voices"]
            if each["name"] not in listing["aliases"]
        ]
    else:
        from realtime_tts.cli.configured_models import configured_models  # imports numpy; `--help` need not
        from realtime_tts.cli.voice_aliases import check_all_used, info_with_aliases

        configured = resolved.config.http.voice_aliases
        infos = [info_with_aliases(m.info(), m.name, configured) for m in configured_models(resolved.config.model)]
        check_all_used(configured, infos)
        rows = [(each.name, each.language, each.name == info.default_voice) for info in infos for each in info.voices]
        aliases = [alias for info in infos for alias in info.voice_aliases.items() if alias[0] not in info.voice_names]
    for name, language, is_default in rows:
        print(f"{name:<16} {language:<8} {'default' if is_default else ''}".rstrip())  # noqa: T201
    for alias, voice in aliases:
        print(f"{alias:<16} alias of {voice}")  # noqa: T201


@app.command()
@with_settings(*MODEL_SETTINGS)
def doctor(
    resolved: Resolved,
    gpu_memory_gb: Annotated[
        float | None,
        typer.Option(
            min=1, help="Report the slots of a GPU of this size.  [default: this machine's GPU, or common sizes]"
        ),
    ] = None,
) -> None:
    """Check this installation: packages, weights and voices, and the number of streams that this machine serves.

    A model for GPUs is not loaded: its directory is checked by its files' headers, and its memory is calculated.
    Without a directory (`--model qwen3_tts`) this is done for the published sizes.
    """
    from realtime_tts.cli.configured_models import configured_models  # imports numpy; `--help` need not
    from realtime_tts.cli.doctor import check_installation
    from realtime_tts.engine import models

    try:
        configured = configured_models(resolved.config.model)
    except RealtimeTTSError as error:
        print(f"FAIL  {error}")  # noqa: T201
        raise typer.Exit(1) from None
    healthy = True
    for model in configured:
        if gpu_memory_gb is not None and models.find(model.kind).check is None:
            raise typer.BadParameter(f"--gpu-memory-gb does not apply to {model.name}, which runs on the CPU")
        healthy &= check_installation(model.kind, model.build_options(print_status), print, gpu_memory_gb)
    raise typer.Exit(0 if healthy else 1)


@app.command("config")
@with_settings()
def show_config(
    resolved: Resolved,
    toml: Annotated[
        bool, typer.Option("--toml", help="Print a file for --config, with the description of every setting.")
    ] = False,
) -> None:
    """Show every setting, its value and the origin of the value.  Secrets are not shown.

    The environment variable of a setting is REALTIME_TTS_SECTION_NAME, such as REALTIME_TTS_SERVER_PORT.  A list is
    written as a,b and `none` stands for no value.
    """
    print(template(resolved).rstrip() if toml else table(resolved))  # noqa: T201
    if resolved.unused:
        print_status(f"Not used: {', '.join(resolved.unused)}")


app.command()(key)


@app.callback(invoke_without_command=True)
def root(version: Annotated[bool, typer.Option("--version", help="Print the version and exit.")] = False) -> None:
    if version:
        print(__version__)  # noqa: T201
        raise typer.Exit


def main(arguments: list[str] | None = None) -> None:
    """`arguments` are those of this process by default."""
    try:
        app(arguments)
    except RealtimeTTSError as error:
        print_status(f"Error: {error}")
        sys.exit(1)
    except Exception as error:
        exhausted = exhausted_resource(error)
        if exhausted is None:
            raise
        print_status(f"Error: {exhausted}")
        sys.exit(1)
