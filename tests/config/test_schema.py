"""Settings: every source in its order, every mistake named with its place, no secret ever shown."""

import math
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from realtime_tts.config import schema as config
from realtime_tts.config.render import table
from realtime_tts.config.schema import InvalidSetting, Resolved, ServerConfig, resolve, settings
from realtime_tts.engine.config import EngineConfig
from realtime_tts.session.limits import SessionLimits

KEY = "rtts_a-very-secret-key-of-some-length"


def resolved(
    text: str | None = None, folder: Path | None = None, flags: dict[str, tuple[str, Any]] | None = None, **env: str
) -> Resolved:
    """`env`: variables without the common prefix."""
    path = None
    if text is not None:
        assert folder is not None
        path = folder / "server.toml"
        path.write_text(text, "utf-8")
    environment = {f"REALTIME_TTS_{name}": value for name, value in env.items()}
    return resolve(config_file=path, environment=environment, flags=flags or {})


def test_without_any_source_everything_is_at_its_default() -> None:
    nothing = resolved()
    assert nothing.config == ServerConfig()
    assert (nothing.config.engine, nothing.config.session) == (EngineConfig(), SessionLimits())
    assert set(nothing.origins.values()) == {"default"}


@pytest.mark.parametrize("sources", range(8))
def test_a_flag_goes_before_the_environment_before_the_file_before_the_default(sources: int, tmp_path: Path) -> None:
    text = "[server]\nport = 1001\n" if sources & 1 else None
    env = {"SERVER_PORT": "1002"} if sources & 2 else {}
    flags = {"server.port": ("--port", 1003)} if sources & 4 else {}
    found = resolved(text, tmp_path, flags, **env)
    if sources & 4:
        expected = (1003, "flag --port")
    elif sources & 2:
        expected = (1002, "environment REALTIME_TTS_SERVER_PORT")
    elif sources & 1:
        expected = (1001, f"{tmp_path / 'server.toml'}: server.port")
    else:
        expected = (8000, "default")
    assert (found.config.server.port, found.origins["server.port"]) == expected


def test_the_environment_may_name_the_file_and_the_flag_goes_before_it(tmp_path: Path) -> None:
    (tmp_path / "one.toml").write_text("[server]\nport = 1\n")
    (tmp_path / "two.toml").write_text("[server]\nport = 2\n")
    environment = {"REALTIME_TTS_CONFIG": str(tmp_path / "one.toml")}
    assert resolve(config_file=None, environment=environment, flags={}).config.server.port == 1
    assert resolve(config_file=tmp_path / "two.toml", environment=environment, flags={}).config.server.port == 2


def test_what_runs_in_this_process_is_read_from_its_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REALTIME_TTS_SERVER_HOST", "::1")
    assert config.load().config.server.host == "::1"


def test_every_type_can_be_written_in_a_variable() -> None:
    found = resolved(
        SERVER_ORIGINS="https://a.example, https://b.example",
        SERVER_ALLOW_PUBLIC="true",
        ENGINE_MAX_WAIT_S="none",
        SESSION_IDLE_S="90",
        MODEL_THREADS="3",
        MODEL_OPTIONS="precision=int8,depth=4,fast=true",
        AUTH_KEY_FILE="/run/secrets/keys",
        LOGGING_FORMAT="json",
    ).config
    assert found.server.origins == ("https://a.example", "https://b.example")
    assert found.server.allow_public is True
    assert found.engine.max_wait_s is None
    assert found.session.idle_s == 90.0
    assert found.model.threads == 3
    assert found.model.options == {"precision": "int8", "depth": 4, "fast": True}
    assert found.auth.key_file == Path("/run/secrets/keys")
    assert found.logging.format == "json"


def test_what_is_compared_may_stand_wherever_settings_do(tmp_path: Path) -> None:
    flags = {"engine.compare": ("--compare", ["policy_c", "edf_only"])}
    both = ("policy_c", "edf_only")
    assert resolved(ENGINE_COMPARE="policy_c, edf_only").config.engine.compare == both
    assert resolved('[engine]\ncompare = ["policy_c", "edf_only"]\n', tmp_path).config.engine.compare == both
    assert resolved(flags=flags).config.engine.compare == both


def test_an_empty_variable_sets_nothing() -> None:
    assert resolved(SERVER_PORT="").origins["server.port"] == "default"


def test_paths_in_a_file_are_relative_to_it_and_others_to_where_we_stand(tmp_path: Path) -> None:
    found = resolved('[auth]\nkey_file = "keys"\n[http]\nvoices_dir = "/var/voices"\n', tmp_path, MODEL_DIR="weights")
    assert found.config.auth.key_file == tmp_path / "keys"
    assert found.config.http.voices_dir == Path("/var/voices")
    assert found.config.model.dir == Path("weights")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[servr]\n", ["[servr]", "did you mean server?", "engine"]),
        ("[server]\nprot = 1\n", ["no setting prot in [server]", "did you mean port?", "max_sessions"]),
        ("[engine]\nmax_wait = 1\n", ["max_wait", "did you mean max_wait_s?"]),
        ("server = 1\n", ["[server]"]),
        ("[[server]]\nport = 1\n", ["[server]"]),
        ('[server]\nport = "8000"\n', ["server.port", "Expected `int`, got `str`"]),
        ("[server]\nport = 8000.5\n", ["server.port", "Expected `int`"]),
        ("[server]\nport = true\n", ["server.port", "Expected `int`, got `bool`"]),
        ("[server]\nport = 70000\n", ["port must be 0 to 65535", "server.port"]),
        ("[server]\nport = 2024-01-01\n", ["server.port", "Expected `int`"]),
        ('[server]\norigins = "https://a"\n', ["server.origins", "Expected `array`"]),
        ("[server]\norigins = [1]\n", ["server.origins", "Expected `str`, got `int`"]),
        ('[server]\ntls_cert = "a.pem"\n', ["tls_cert and tls_key go together"]),
        ("[server]\ntls_cert = 4\ntls_key = 4\n", ["server.tls_cert", "Expected `str`, got `int`"]),
        ('[server]\ntls_cert = ""\ntls_key = ""\n', ["Expected a path"]),
        ("[server]\ndrain_s = -1\n", ["server.drain_s", "not negative"]),
        ("[server]\ndrain_s = inf\n", ["server.drain_s", "finite"]),
        ("[server]\ndrain_s = nan\n", ["server.drain_s", "finite"]),
        ("[session]\nwrite_timeout_s = 0\n", ["session.write_timeout_s", "positive"]),
        ('[engine]\nscheduler = "fifo"\n', ["scheduler must be one of deadline", "engine.scheduler"]),
        ('[logging]\nlevel = "loud"\n', ["logging.level"]),
        ("[tracing]\nsample_ratio = 1.5\n", ["sample_ratio must be 0 to 1"]),
        ("[model.options]\nx = {}\n", ["model.options"]),
        ("[server\n", ["not TOML", "line 1"]),
        ("[server]\nport = 1\nport = 2\n", ["not TOML"]),
        ("x = " + "[" * 20_000, ["not TOML"]),
    ],
    ids=lambda value: value[:40].replace("\n", " ") if isinstance(value, str) else "",
)
def test_a_mistake_in_the_file_is_named_with_its_place(text: str, words: list[str], tmp_path: Path) -> None:
    with pytest.raises(InvalidSetting) as caught:
        resolved(text, tmp_path)
    for each in (*words, str(tmp_path / "server.toml")):
        assert each in caught.value.message


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("SERVER_PROT", "1", "did you mean REALTIME_TTS_SERVER_PORT?"),
        ("SERVER_PORT", "tcp://10.0.0.1:8000", "REALTIME_TTS_SERVER_PORT: Expected `int`"),
        ("SERVER_PORT", "8000.5", "REALTIME_TTS_SERVER_PORT"),
        ("SERVER_ALLOW_PUBLIC", "perhaps", "Expected `bool`"),
        ("SERVER_DRAIN_S", "inf", "finite"),
        ("SERVER_MAX_SESSIONS", "0", "max_sessions must be at least 1"),
        ("MODEL_OPTIONS", "fast", "'fast' is not NAME=VALUE"),
        ("AUTH_TOKEN_TTL_S", "0", "token_ttl_s must be positive"),
    ],
)
def test_a_mistake_in_the_environment_is_named_with_its_variable(name: str, value: str, words: str) -> None:
    with pytest.raises(InvalidSetting) as caught:
        resolve(config_file=None, environment={f"REALTIME_TTS_{name}": value}, flags={})
    assert words in caught.value.message
    assert f"REALTIME_TTS_{name}" in caught.value.message


def test_variables_that_an_orchestrator_sets_by_itself_are_told_and_harm_nobody() -> None:
    found = resolved(SERVICE_HOST="10.0.0.1", PORT="tcp://10.0.0.1:80", PORT_80_TCP_PROTO="tcp")
    assert found.config == ServerConfig()
    assert "REALTIME_TTS_SERVICE_HOST" in found.unused


@pytest.mark.parametrize("content", [b"\xff\xfe", None], ids=["not UTF-8", "missing"])
def test_a_file_that_cannot_be_read_is_named(content: bytes | None, tmp_path: Path) -> None:
    path = tmp_path / "server.toml"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(InvalidSetting, match=r"server\.toml"):
        resolve(config_file=path, environment={}, flags={})


def test_a_file_of_an_editor_that_writes_a_byte_order_mark_is_read(tmp_path: Path) -> None:
    (tmp_path / "server.toml").write_bytes(b"\xef\xbb\xbf[server]\nport = 7\n")
    assert resolve(config_file=tmp_path / "server.toml", environment={}, flags={}).config.server.port == 7


@pytest.mark.parametrize("value", ["", 5, [KEY], {"a": KEY}])
def test_a_mistake_in_a_secret_does_not_show_it(value: object) -> None:
    flags = {"auth.keys": ("--keys", value), "auth.key_file": ("--key-file", "keys")}
    with pytest.raises(InvalidSetting) as caught:
        resolve(config_file=None, environment={}, flags=flags)
    assert KEY not in str(caught.value)
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__


@given(st.dictionaries(st.sampled_from([each.variable for each in settings().values()]), st.text(max_size=30)))
def test_no_environment_does_worse_than_a_plain_refusal(environment: dict[str, str]) -> None:
    try:
        found = resolve(config_file=None, environment=environment, flags={})
    except InvalidSetting:
        return
    assert all(math.isfinite(value) for value in (found.config.server.drain_s, found.config.session.idle_s))
    assert len(table(found).splitlines()) == len(settings())


def test_what_is_no_utf8_is_refused() -> None:
    with pytest.raises(InvalidSetting, match="REALTIME_TTS_MODEL_DIR: not UTF-8"):
        resolved(MODEL_DIR="caf\udce9")


def test_reading_the_configuration_loads_nothing_heavy() -> None:
    code = "import sys, realtime_tts.config.schema; print(*sorted({name.split('.')[0] for name in sys.modules}))"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not {"numpy", "aiohttp", "torch", "onnxruntime"} & set(result.stdout.split())
