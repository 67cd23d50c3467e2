"""Configuration loading: precedence of the sources, conversion, and errors that name the place of a value."""

import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from realtime_tts.config.load import InvalidSetting, Resolved, load, read_text, resolve
from realtime_tts.config.schema import ServerConfig, settings

KEY = "rtts_a-very-secret-key-of-some-length"


def resolved(
    text: str | None = None, folder: Path | None = None, flags: dict[str, object] | None = None, **env: str
) -> Resolved:
    """`env`: variables without the common prefix."""
    path = None
    if text is not None:
        assert folder is not None
        path = folder / "server.toml"
        path.write_text(text, "utf-8")
    environment = {f"REALTIME_TTS_{name}": value for name, value in env.items()}
    return resolve(config_file=path, environment=environment, flags=flags or {})


def test_without_any_source_every_setting_has_its_default() -> None:
    assert resolved().config == ServerConfig()
    assert set(resolved().origins.values()) == {"default"}


def test_a_flag_overrides_the_environment_which_overrides_the_file(tmp_path: Path) -> None:
    for sources in range(8):
        text = "[server]\nport = 1001\n" if sources & 1 else None
        env = {"SERVER_PORT": "1002"} if sources & 2 else {}
        flags: dict[str, object] = {"server.port": "1003"} if sources & 4 else {}
        found = resolved(text, tmp_path, flags, **env)
        if sources & 4:
            expected = (1003, "flag --port")
        elif sources & 2:
            expected = (1002, "environment REALTIME_TTS_SERVER_PORT")
        elif sources & 1:
            expected = (1001, f"{tmp_path / 'server.toml'}: server.port")
        else:
            expected = (8000, "default")
        assert (found.config.server.port, found.origins["server.port"]) == expected, f"{sources:03b}"


def test_the_environment_may_name_the_file_and_the_flag_overrides_it(tmp_path: Path) -> None:
    (tmp_path / "one.toml").write_text("[server]\nport = 1\n")
    (tmp_path / "two.toml").write_text("[server]\nport = 2\n")
    environment = {"REALTIME_TTS_CONFIG": str(tmp_path / "one.toml")}
    assert resolve(config_file=None, environment=environment, flags={}).config.server.port == 1
    assert resolve(config_file=tmp_path / "two.toml", environment=environment, flags={}).config.server.port == 2


def test_load_reads_the_environment_of_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REALTIME_TTS_SERVER_HOST", "::1")
    assert load().config.server.host == "::1"


def test_an_environment_variable_can_have_a_value_of_every_type() -> None:
    found = resolved(
        SERVER_ORIGINS="https://a.example, https://b.example",
        SERVER_ALLOW_PUBLIC="true",
        ENGINE_MAX_WAIT_S="none",
        SESSION_IDLE_S="90",
        MODEL_THREADS="3",
        MODEL_OPTIONS="precision=int8,depth=4,kokoro.fast=true",
        AUTH_KEY_FILE="/run/secrets/keys",
        LOGGING_FORMAT="json",
    ).config
    assert found.server.origins == ("https://a.example", "https://b.example")
    assert found.server.allow_public is True
    assert found.engine.max_wait_s is None
    assert found.session.idle_s == 90.0
    assert found.model.threads == 3
    assert found.model.options == {"precision": "int8", "depth": 4, "kokoro.fast": True}
    assert found.auth.key_file == Path("/run/secrets/keys")
    assert found.logging.format == "json"


def test_lists_can_be_given_everywhere(tmp_path: Path) -> None:
    both = ("kokoro", "/models/qwen3")
    assert resolved(MODEL_NAME="kokoro, /models/qwen3").config.model.name == both
    assert resolved('[model]\nname = ["kokoro", "/models/qwen3"]\n', tmp_path).config.model.name == both
    assert resolved(flags={"model.name": list(both)}).config.model.name == both
    assert resolved('[model]\nname = "tone"\n', tmp_path).config.model.name == ("tone",)
    assert resolved(MODEL_NAME='["kokoro", "/models/qwen3"]').config.model.name == both
    assert resolved(flags={"model.name": '["kokoro", "/models/qwen3"]'}).config.model.name == both
    assert resolved(SERVER_ORIGINS='["*"]').config.server.origins == ("*",)
    assert resolved(SERVER_ORIGINS="[]").config.server.origins == ()
    assert resolved(MODEL_OPTIONS='{"slots": 8, "kokoro": {"threads": 2}}').config.model.options == {
        "slots": 8,
        "kokoro.threads": 2,
    }
    assert resolved(ENGINE_COMPARE="policy_c,edf_only").config.engine.compare == ("policy_c", "edf_only")


def test_options_of_one_model_are_a_table_in_the_file_and_have_its_name_elsewhere(tmp_path: Path) -> None:
    expected = {"slots": 8, "kokoro.threads": 2}
    tables = "[model.options]\nslots = 8\n[model.options.kokoro]\nthreads = 2\n"
    inline = '[model]\noptions = { slots = 8, "kokoro.threads" = 2 }\n'
    for text in (tables, inline):
        assert resolved(text, tmp_path).config.model.options == expected
    assert resolved(flags={"model.options": ["slots=8", "kokoro.threads=2"]}).config.model.options == expected


def test_minus_one_and_none_mean_no_limit(tmp_path: Path) -> None:
    for found in (
        resolved(flags={"engine.max_wait_s": "-1"}),
        resolved(ENGINE_MAX_WAIT_S="None"),
        resolved("[engine]\nmax_wait_s = -1\n", tmp_path),
        resolved('[engine]\nmax_wait_s = "none"\n', tmp_path),
    ):
        assert found.config.engine.max_wait_s is None
    with pytest.raises(InvalidSetting, match="flag --drain: must be a finite number that is not negative"):
        resolved(flags={"server.drain_s": "-1"})


def test_an_empty_variable_sets_nothing() -> None:
    assert resolved(SERVER_PORT="").origins["server.port"] == "default"


def test_a_relative_path_starts_at_the_file_that_has_it_or_at_the_working_directory(tmp_path: Path) -> None:
    found = resolved('[auth]\nkey_file = "keys"\n[http]\nvoices_dir = "/var/voices"\n', tmp_path, MODEL_DIR="weights")
    assert found.config.auth.key_file == tmp_path / "keys"
    assert found.config.http.voices_dir == Path("/var/voices")
    assert found.config.model.dir == Path("weights")


MISTAKES_IN_THE_FILE = {
    "[servr]\n": ["[servr]", "did you mean server?", "engine"],
    "[server]\nprot = 1\n": ["no setting prot in [server]", "did you mean port?", "max_sessions"],
    "[engine]\nmax_wait = 1\n": ["max_wait", "did you mean max_wait_s?"],
    "server = 1\n": ["[server]"],
    "[[server]]\nport = 1\n": ["[server]"],
    '[server]\nport = "8000"\n': ["server.port", "Expected `int`, got `str`"],
    "[server]\nport = 8000.5\n": ["server.port", "Expected `int`"],
    "[server]\nport = true\n": ["server.port", "Expected `int`, got `bool`"],
    "[server]\nport = 70000\n": ["server.port", "Expected `int` <= 65535"],
    "[server]\nport = 2024-01-01\n": ["server.port", "Expected `int`"],
    "[server]\norigins = [1]\n": ["server.origins", "Expected `str`, got `int`"],
    "[server]\norigins = 1\n": ["server.origins", "Expected `array`, got `int`"],
    '[server]\ntls_cert = "a.pem"\n': ["tls_cert and tls_key go together", "server.tls_cert"],
    "[server]\ntls_cert = 4\ntls_key = 4\n": ["server.tls_cert", "Expected `str`, got `int`"],
    '[server]\ntls_cert = ""\ntls_key = ""\n': ["Expected a path"],
    "[server]\ndrain_s = -1\n": ["server.drain_s", "not negative"],
    "[server]\ndrain_s = inf\n": ["server.drain_s", "finite"],
    "[server]\ndrain_s = nan\n": ["server.drain_s", "finite"],
    "[session]\nwrite_timeout_s = 0\n": ["session.write_timeout_s", "positive"],
    "[model]\nname = []\n": ["model.name", "at least one model"],
    "[model]\nthreads = 0\n": ["model.threads", "Expected `int` >= 1"],
    "[model.options]\nx = [1]\n": ["model.options"],
    '[engine]\nscheduler = "fifo"\n': ["scheduler must be one of deadline", "engine.scheduler"],
    '[engine]\ncompare = ["fifo"]\n': ["compare may name round_robin", "engine.compare"],
    '[logging]\nlevel = "loud"\n': ["logging.level"],
    "[auth]\ntoken_ttl_s = 0\n": ["auth.token_ttl_s", "> 0"],
    '[auth]\nkeys = "a=b"\nkey_file = "keys"\n': ["exclude each other", "auth.keys", "auth.key_file"],
    "[tracing]\nsample_ratio = 1.5\n": ["tracing.sample_ratio", "<= 1"],
    '[tracing]\nendpoint = "collector:4318"\n': ["endpoint must be an http or https URL"],
    "[server\n": ["not TOML", "line 1"],
    "[server]\nport = 1\nport = 2\n": ["not TOML"],
    "x = " + "[" * 20_000: ["not TOML"],
}


def test_a_mistake_in_the_file_is_reported_with_its_place(tmp_path: Path) -> None:
    for text, words in MISTAKES_IN_THE_FILE.items():
        with pytest.raises(InvalidSetting) as caught:
            resolved(text, tmp_path)
        for each in (*words, str(tmp_path / "server.toml")):
            assert each in caught.value.message, text[:80]


MISTAKES_IN_THE_ENVIRONMENT = {
    ("SERVER_PROT", "1"): "did you mean REALTIME_TTS_SERVER_PORT?",
    ("SERVER_PORT", "tcp://10.0.0.1:8000"): "REALTIME_TTS_SERVER_PORT: Expected `int`",
    ("SERVER_PORT", "8000.5"): "Expected `int`",
    ("SERVER_ALLOW_PUBLIC", "perhaps"): "Expected `bool`",
    ("SERVER_DRAIN_S", "inf"): "finite",
    ("SERVER_MAX_SESSIONS", "0"): "Expected `int` >= 1",
    ("MODEL_OPTIONS", "fast"): "'fast' is not NAME=VALUE",
    ("MODEL_DIR", "caf\udce9"): "not UTF-8",
    ("SERVER_ORIGINS", '["https://a.example"'): "not JSON",
    ("SERVER_ORIGINS", "[[1]]"): "Expected `str`",
    ("MODEL_DIR", "~no-such-user-here/x"): "No such user's home",
}


def test_a_mistake_in_the_environment_is_reported_with_its_variable() -> None:
    for (name, value), words in MISTAKES_IN_THE_ENVIRONMENT.items():
        with pytest.raises(InvalidSetting) as caught:
            resolve(config_file=None, environment={f"REALTIME_TTS_{name}": value}, flags={})
        assert words in caught.value.message, (name, value)
        assert f"REALTIME_TTS_{name}" in caught.value.message, (name, value)


def test_variables_that_an_orchestrator_sets_are_ignored_and_listed() -> None:
    found = resolved(SERVICE_HOST="10.0.0.1", PORT="tcp://10.0.0.1:80", PORT_80_TCP_PROTO="tcp")
    assert found.config == ServerConfig()
    assert "REALTIME_TTS_SERVICE_HOST" in found.unused


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    path = tmp_path / "server.toml"
    with pytest.raises(InvalidSetting, match=r"server\.toml cannot be read: No such file"):
        resolve(config_file=path, environment={}, flags={})
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(InvalidSetting, match=r"^auth\.key_file: .*server\.toml is not UTF-8"):
        read_text(path, "auth.key_file")


def test_a_byte_order_mark_is_ignored(tmp_path: Path) -> None:
    (tmp_path / "server.toml").write_bytes(b"\xef\xbb\xbf[server]\nport = 7\n")
    assert resolve(config_file=tmp_path / "server.toml", environment={}, flags={}).config.server.port == 7


def test_a_mistake_in_a_secret_does_not_show_it(tmp_path: Path) -> None:
    for line in (f'keys = ["{KEY}"]', f'keys = {{ a = "{KEY}" }}', f'keys = "me={KEY}"\nkey_file = "keys"'):
        with pytest.raises(InvalidSetting, match="keys") as caught:
            resolved(f"[auth]\n{line}\n", tmp_path)
        assert KEY not in str(caught.value), line
        assert caught.value.__cause__ is None, line
        assert caught.value.__suppress_context__, line


@given(st.dictionaries(st.sampled_from([each.variable for each in settings().values()]), st.text(max_size=30)))
@hypothesis_settings(max_examples=30, deadline=None)
def test_any_environment_is_accepted_or_refused_in_plain_words(environment: dict[str, str]) -> None:
    try:
        found = resolve(config_file=None, environment=environment, flags={})
    except InvalidSetting:
        return
    assert all(math.isfinite(value) for value in (found.config.server.drain_s, found.config.session.idle_s))
    assert found.origins.keys() == settings().keys()
