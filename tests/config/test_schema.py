"""Configuration schema: every setting has a description, a flag is a setting, and importing it is quick."""

import subprocess
import sys
from dataclasses import fields

import pytest

from realtime_tts.config.schema import FLAGS, SECTIONS, EngineSection, Secret, ServerConfig, settings
from realtime_tts.engine.config import EngineConfig


def test_there_is_a_setting_for_every_field_with_its_default() -> None:
    assert len(settings()) == sum(len(fields(section)) for section in SECTIONS.values())
    assert settings()["server.port"].default == ServerConfig().server.port
    assert settings()["server.port"].variable == "REALTIME_TTS_SERVER_PORT"


def test_every_setting_has_a_description() -> None:
    without = {path for path, setting in settings().items() if not setting.description}
    # protocol.md describes these; their names say what they limit.
    assert without <= {"session.max_message_bytes", "session.session_s"}
    assert settings()["engine.max_wait_s"].description  # of the base class
    assert settings()["engine.compare"].description


def test_every_flag_is_a_setting_and_has_a_name_of_its_own() -> None:
    assert settings().keys() >= FLAGS.keys()
    assert len(set(FLAGS.values())) == len(FLAGS)


def test_a_secret_shows_its_value_only_on_request() -> None:
    secret = Secret("not-to-be-seen")
    assert secret.reveal() == "not-to-be-seen"
    assert secret == Secret("not-to-be-seen") != Secret("another")
    for text in (repr(secret), str(secret), f"{secret}", repr([secret])):
        assert "not-to-be-seen" not in text


def test_the_engine_section_is_the_engine_s_configuration_with_the_schedulers_to_compare() -> None:
    assert EngineSection(compare=("policy_c", "edf_only")).compare == ("policy_c", "edf_only")
    assert isinstance(EngineSection(), EngineConfig)
    for compare in (("deadline",), ("policy_c", "policy_c"), ("fifo",)):
        with pytest.raises(ValueError, match="compare may name round_robin"):
            EngineSection(compare=compare)


def test_importing_the_configuration_loads_nothing_heavy() -> None:
    code = "import sys, realtime_tts.config.load; print(*sorted({name.split('.')[0] for name in sys.modules}))"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not {"numpy", "aiohttp", "torch", "onnxruntime", "typer"} & set(result.stdout.split())
