"""What is shown is what is in force, can be read again, and holds no secret."""

from dataclasses import fields
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from realtime_tts.config.render import table, template
from realtime_tts.config.schema import SECTIONS, Secret, ServerConfig, settings
from tests.config.test_schema import KEY, resolved


def test_the_defaults_would_themselves_be_accepted(tmp_path: Path) -> None:
    lines = template(resolved()).splitlines()
    uncommented = [line.removeprefix("# ") if " = " in line and line.startswith("# ") else line for line in lines]
    known = {setting.name for setting in settings().values()}
    kept = [line for line in uncommented if line.startswith("[") or line.split(" = ")[0] in known]
    everything = resolved("\n".join(kept), tmp_path)
    assert everything.config == ServerConfig()
    assert "default" not in everything.origins.values()


def test_a_secret_is_never_shown() -> None:
    found = resolved(AUTH_KEYS=f"me={KEY}")
    assert found.config.auth.keys == Secret(f"me={KEY}")
    assert found.config.auth.keys is not None
    assert found.config.auth.keys.reveal() == f"me={KEY}"
    for text in (table(found), template(found), repr(found), str(found.config), f"{found.config.auth}"):
        assert KEY not in text
    assert "***" in table(found)


def test_a_file_made_from_a_configuration_with_a_secret_leaves_it_out(tmp_path: Path) -> None:
    again = resolved(template(resolved(AUTH_KEYS=f"me={KEY}")), tmp_path)
    assert again.config == ServerConfig()


def test_every_setting_is_shown_with_its_origin() -> None:
    lines = table(resolved(SERVER_PORT="9000")).splitlines()
    assert len(lines) == len(settings()) == sum(len(fields(kind)) for kind in SECTIONS.values())
    (line,) = [line for line in lines if line.startswith("server.port ")]
    assert line.split() == ["server.port", "=", "9000", "#", "environment", "REALTIME_TTS_SERVER_PORT"]


def test_every_setting_says_what_it_is_for_in_the_template() -> None:
    unexplained = [setting.path for setting in settings().values() if not setting.what]
    # Names of SessionLimits that speak for themselves, and are announced in protocol.md.
    assert set(unexplained) <= {"session.max_message_bytes", "session.session_s"}


texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=20)


@given(
    host=texts,
    port=st.integers(0, 65_535),
    drain_s=st.floats(0, 1e300),
    origins=st.lists(texts, max_size=3),
    options=st.dictionaries(texts, st.booleans() | st.integers(-(2**60), 2**60) | texts, max_size=3),
    max_wait_s=st.none() | st.floats(0, 1e6),
)
def test_what_the_template_says_is_what_is_read_again(
    tmp_path_factory: pytest.TempPathFactory,
    host: str,
    port: int,
    drain_s: float,
    origins: list[str],
    options: dict[str, object],
    max_wait_s: float | None,
) -> None:
    values = {
        "server.host": host,
        "server.port": port,
        "server.drain_s": drain_s,
        "server.origins": origins,
        "model.options": options,
        "engine.max_wait_s": max_wait_s,
    }
    once = resolved(flags={path: ("--it", value) for path, value in values.items()})
    again = resolved(template(once), tmp_path_factory.mktemp("template"))
    assert again.config == once.config
    assert {path for path, origin in again.origins.items() if origin != "default"} == set(values)
