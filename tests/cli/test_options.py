"""Options from the schema: names, help texts and values."""

import typer
from typer.testing import CliRunner

from realtime_tts.cli.main import app
from realtime_tts.cli.options import with_settings
from realtime_tts.config.load import Resolved
from realtime_tts.config.schema import FLAGS, ServerConfig, settings


def given(*arguments: str) -> Resolved:
    """The configuration that a command with all flags gets."""
    received: list[Resolved] = []
    own = typer.Typer()

    @own.command()
    @with_settings(*FLAGS)
    def command(resolved: Resolved, before: int = 0) -> None:
        received.append(resolved)

    result = CliRunner().invoke(own, ["--before", "1", *arguments])
    assert result.exit_code == 0, result.output
    return received[0]


def test_a_flag_has_the_description_and_the_default_of_its_setting() -> None:
    text = " ".join(CliRunner().invoke(app, ["serve", "--help"], terminal_width=300).output.split())
    for path, flag in FLAGS.items():
        setting = settings()[path]
        assert setting.description in text, flag
        assert f"{flag} " if setting.kind is bool else f"{flag} <{path}> {setting.description}" in text, flag
    for expected in ("[default: 127.0.0.1]", "[default: kokoro]", "[default: 30]", "[default: no authentication]"):
        assert expected in text


def test_without_options_the_configuration_is_the_default() -> None:
    assert given().config == ServerConfig()
    assert set(given().origins.values()) == {"default"}


def test_options_set_what_they_name() -> None:
    arguments = ["--port", "9000", "--allow-public", "--max-wait", "-1", "--log-level", "debug", "--drain", "2.5"]
    repeated = ["--model", "tone", "--model", "a/b,c", "--set", "x=1", "--set", "tone.y=a,b", "--compare", "policy_c"]
    resolved = given(*arguments, *repeated)
    config = resolved.config
    assert (config.server.port, config.server.allow_public, config.server.drain_s) == (9000, True, 2.5)
    assert (config.engine.max_wait_s, config.engine.compare, config.logging.level) == (None, ("policy_c",), "debug")
    assert config.model.name == ("tone", "a/b,c")
    assert config.model.options == {"x": 1, "tone.y": "a,b"}
    assert resolved.origins["model.options"] == "flag --set"
