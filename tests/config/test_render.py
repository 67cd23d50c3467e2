"""Configuration as text: it shows what is in force, can be read again, and contains no secret."""

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from realtime_tts.config.load import Resolved
from realtime_tts.config.render import table, template
from realtime_tts.config.schema import Secret, ServerConfig, settings
from tests.config.test_load import KEY, resolved


def test_the_defaults_in_the_template_are_valid_settings(tmp_path: Path) -> None:
    names = {path.partition(".")[2] for path in settings()}
    lines = [line.removeprefix("# ") for line in template(resolved()).splitlines()]
    kept = [line for line in lines if line.startswith("[") or line.split(" = ")[0] in names]
    everything = resolved("\n".join(kept), tmp_path)
    assert everything.config == ServerConfig()
    assert "default" not in everything.origins.values()


def test_a_secret_is_never_shown(tmp_path: Path) -> None:
    found = resolved(AUTH_KEYS=f"me={KEY}")
    assert found.config.auth.keys == Secret(f"me={KEY}")
    for text in (table(found), template(found), repr(found), str(found.config), f"{found.config.auth}"):
        assert KEY not in text
    assert "***" in table(found)
    # A file made from this configuration leaves the secret out.
    assert resolved(template(found), tmp_path).config == ServerConfig()


def test_every_setting_is_shown_with_its_origin() -> None:
    lines = table(resolved(SERVER_PORT="9000")).splitlines()
    assert len(lines) == len(settings())
    (line,) = [line for line in lines if line.startswith("server.port ")]
    assert line.split() == ["server.port", "=", "9000", "#", "environment", "REALTIME_TTS_SERVER_PORT"]


def test_the_template_describes_every_setting_in_lines_of_normal_length() -> None:
    text = template(resolved())
    assert all(len(line) <= 120 for line in text.splitlines())
    words = " ".join(text.replace("# ", " ").split())
    assert all(setting.description in words for setting in settings().values())


texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=20)


@given(
    host=texts,
    port=st.integers(0, 65_535),
    drain_s=st.floats(0, 1e300),
    origins=st.lists(texts, max_size=3),
    options=st.dictionaries(texts, st.booleans() | st.integers(-(2**60), 2**60) | texts, max_size=3),
    max_wait_s=st.none() | st.floats(0, 1e6),
)
@hypothesis_settings(max_examples=30, deadline=None)
def test_a_template_is_read_again_as_the_same_configuration(
    tmp_path_factory: pytest.TempPathFactory,
    host: str,
    port: int,
    drain_s: float,
    origins: list[str],
    options: dict[str, bool | int | float | str],
    max_wait_s: float | None,
) -> None:
    default = ServerConfig()
    config = replace(
        default,
        server=replace(default.server, host=host, port=port, drain_s=drain_s, origins=tuple(origins)),
        model=replace(default.model, options=options),
        engine=replace(default.engine, max_wait_s=max_wait_s),
    )
    paths = ("server.host", "server.port", "server.drain_s", "server.origins", "model.options", "engine.max_wait_s")
    once = Resolved(config, {path: "test" if path in paths else "default" for path in settings()})
    again = resolved(template(once), tmp_path_factory.mktemp("template"))
    assert again.config == config
    assert {path for path, origin in again.origins.items() if origin != "default"} == set(paths)
