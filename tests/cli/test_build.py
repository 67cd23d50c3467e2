"""What is configured is what runs: keys, limits, figures and traces of a whole server, the cheap checks first."""

import asyncio
import json
import re
import threading
from pathlib import Path

import aiohttp
import pytest
import websockets.asyncio.client

from realtime_tts.cli.build import (
    access_rules,
    key_store,
    make_tracing,
    model_options,
    references,
    serving,
    voice_store,
)
from realtime_tts.client import Audio, connect
from realtime_tts.clock import MonotonicClock
from realtime_tts.config.schema import (
    AuthSection,
    HttpSection,
    InvalidSetting,
    MetricsSection,
    ModelSection,
    Secret,
    ServerConfig,
    ServerSection,
    TracingSection,
)
from realtime_tts.engine.config import EngineConfig
from realtime_tts.engine.models import tone
from realtime_tts.engine.scheduling.policy import SCHEDULERS
from realtime_tts.errors import CannotListen, InvalidConfig, ModelNotUsable, OperatorError
from realtime_tts.frontends.native.messages import STREAM_PATH
from realtime_tts.server.api_keys import key_line
from realtime_tts.session.limits import SessionLimits

TONE = ModelSection(name="tone")
KEY = "rtts_" + "k" * 40


def quiet(_line: str) -> None: ...


def on_free_port(**sections: object) -> ServerConfig:
    return ServerConfig(**{"server": ServerSection(port=0), "model": TONE, **sections})  # type: ignore[arg-type]


async def get(url: str, key: str | None = None) -> tuple[int, str]:
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    async with aiohttp.ClientSession() as client, client.get(url, headers=headers) as answer:
        return answer.status, await answer.text()


async def test_a_whole_server_speaks_and_counts_what_it_did() -> None:
    async with serving(on_free_port(), quiet) as (url, server):
        async with connect(url) as session:
            await session.send_text("Hello world. How are you?")
            await session.done()
            assert sum(len(event.data) for event in [e async for e in session.utterance()] if isinstance(event, Audio))
        status, text = await get(f"{url}/metrics")
        assert server.active_sessions == 0
    assert status == 200
    assert "realtime_tts_audio_duration_seconds_count 2.0" in text
    assert "realtime_tts_audio_ttfp_seconds_count 1.0" in text
    assert 'realtime_tts_stage_batch_size_count{stage="talker"}' in text
    assert "realtime_tts_engine_ready 1.0" in text


async def test_without_metrics_there_is_no_such_page() -> None:
    async with serving(on_free_port(metrics=MetricsSection(enabled=False)), quiet) as (url, _server):
        assert (await get(f"{url}/metrics"))[0] == 404


async def test_who_is_refused_is_counted_by_reason() -> None:
    config = on_free_port(auth=AuthSection(keys=Secret(f"me={KEY}")))
    async with serving(config, quiet) as (url, _server):
        assert (await get(f"{url}/v1/audio/voices"))[0] == 401
        assert (await get(f"{url}/v1/audio/voices", KEY))[0] == 200
        text = (await get(f"{url}/metrics", KEY))[1]
    assert 'realtime_tts_sessions_rejected_total{reason="unauthorized"} 1.0' in text


async def test_the_limits_of_the_configuration_are_those_of_the_sessions() -> None:
    config = on_free_port(session=SessionLimits(max_contexts=3))
    async with serving(config, quiet) as (url, _server), connect(url) as session:
        await session.send_text("Hello.")
        await session.done()
        events = [event async for event in session.utterance()]
    assert "max_contexts=3" in repr(events[0])


async def test_everything_ends_with_the_block() -> None:
    before = asyncio.all_tasks()
    async with serving(on_free_port(), quiet):
        assert asyncio.all_tasks() - before
    assert asyncio.all_tasks() == before


COMPARING = EngineConfig(compare=("policy_c",))


def engine_threads() -> set[threading.Thread]:
    return {each for each in threading.enumerate() if each.name == "engine" or each.name.startswith("lane-")}


async def test_a_compared_scheduler_has_an_engine_of_its_own_and_its_sessions_count_like_all() -> None:
    before, told = engine_threads(), list[str]()
    async with serving(on_free_port(engine=COMPARING), told.append) as (url, server):
        assert len(engine_threads() - before) == 2 * len({"engine", *(stage.lane for stage in tone.build().stages)})
        assert json.loads((await get(f"{url}/v1/demo"))[1]) == {"schedulers": ["deadline", "policy_c"], "clones": False}
        admits = {name: engine.status().places is not None for name, engine in server.engines.items()}
        assert admits == {"tone": SCHEDULERS["deadline"].admits, "tone@policy_c": SCHEDULERS["policy_c"].admits}
        stream = f"{url.replace('http', 'ws')}{STREAM_PATH}?scheduler=policy_c"
        async with websockets.asyncio.client.connect(stream, proxy=None) as socket:
            for message in ({"type": "input.text", "text": "Hello."}, {"type": "input.done"}):
                await socket.send(json.dumps(message))
            while '"session.done"' not in str(frame := await socket.recv()):
                assert '"error":true' not in str(frame)
            text = (await get(f"{url}/metrics"))[1]
            assert server.active_sessions == 1
    assert "realtime_tts_sessions_active 1.0" in text
    assert "realtime_tts_audio_duration_seconds_count 1.0" in text
    assert "realtime_tts_stage_batch_size_count" not in text  # the default's engine has had nothing to do
    assert any("policy_c" in line for line in told)
    assert engine_threads() <= before


async def test_an_engine_that_does_not_start_takes_the_others_with_it() -> None:
    def fail(_line: str) -> None:
        assert engine_threads() - before, "the first engine runs by now"
        raise ModelNotUsable("no memory is left for a second model")

    before, tasks = engine_threads(), asyncio.all_tasks()
    with pytest.raises(ModelNotUsable, match="second model"):
        async with serving(on_free_port(engine=COMPARING), fail):
            pass
    assert engine_threads() <= before
    assert asyncio.all_tasks() == tasks


async def test_a_port_that_is_taken_ends_all_engines() -> None:
    before = engine_threads()
    async with serving(on_free_port(), quiet) as (url, _server):
        taken = ServerSection(port=int(url.rpartition(":")[2]))
        with pytest.raises(CannotListen):
            async with serving(on_free_port(server=taken, engine=COMPARING), quiet):
                pass
        assert len(engine_threads() - before) == len({"engine", *(stage.lane for stage in tone.build().stages)})


async def test_what_is_wrong_is_told_before_the_model_is_loaded(tmp_path: Path) -> None:
    told: list[str] = []
    bad_key_file = tmp_path / "keys"
    bad_key_file.write_text("me:nonsense\n")
    for sections in (
        {"auth": AuthSection(key_file=bad_key_file)},
        {"auth": AuthSection(key_file=tmp_path / "missing")},
        {"server": ServerSection(origins=("*",))},
        {"server": ServerSection(tls_cert=tmp_path / "missing", tls_key=tmp_path / "missing")},
    ):
        config = on_free_port(**{"model": ModelSection(name="no such model"), **sections})
        with pytest.raises(OperatorError) as caught:
            async with serving(config, told.append):
                pass
        assert not isinstance(caught.value, ModelNotUsable)
        assert "nonsense" not in str(caught.value)


def test_keys_come_from_a_file_or_in_plain_or_not_at_all(tmp_path: Path) -> None:
    (tmp_path / "keys").write_text(f"# ours\n{key_line('me', KEY)}\n")
    for section in (AuthSection(key_file=tmp_path / "keys"), AuthSection(keys=Secret(f"me={KEY}"))):
        store = key_store(section)
        assert store is not None
        assert store.find(KEY) is not None
    assert key_store(AuthSection()) is None


@pytest.mark.parametrize(
    ("server", "checked"),
    [
        (ServerSection(), True),
        (ServerSection(host="0.0.0.0"), False),
        (ServerSection(host="0.0.0.0", hosts=("Tts.Example.com",)), True),
    ],
)
def test_the_host_is_checked_wherever_its_names_can_be_known(server: ServerSection, checked: bool) -> None:
    rules = access_rules(ServerConfig(server=server))
    assert rules.check_host is checked
    assert rules.public_hosts == {host.lower() for host in server.hosts}


def test_a_model_is_built_with_what_was_set_and_nothing_else() -> None:
    assert model_options(TONE, quiet) == {}
    assert model_options(ModelSection(name="tone", options={"max_batch": 2}), quiet) == {"max_batch": 2}
    own = model_options(ModelSection(threads=3, dir=Path("weights")), quiet)
    assert own == {"threads": 3, "model_dir": Path("weights"), "progress": quiet}


async def test_urls_and_uploads_are_only_for_those_who_allowed_them(tmp_path: Path) -> None:
    closed = references(HttpSection(), voice_store(HttpSection(), tone.info()))
    with pytest.raises(InvalidConfig, match="keeps no uploaded voices"):
        await closed("voice:anna")
    with pytest.raises(InvalidConfig, match="fetches no URLs"):
        await closed("https://example.com/a.wav")
    section = HttpSection(voices_dir=tmp_path / "voices", allow_ref_audio_urls=True)
    opened = references(section, voice_store(section, tone.info()))
    with pytest.raises(InvalidConfig, match="no uploaded voice 'anna'"):
        await opened("voice:anna")
    with pytest.raises(InvalidConfig, match="only https URLs"):
        await opened("http://example.com/a.wav")


def test_a_folder_of_voices_that_cannot_be_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InvalidSetting, match=re.escape(str(tmp_path / "file"))):
        voice_store(HttpSection(voices_dir=tmp_path / "file"), tone.info())


def test_without_an_endpoint_nothing_is_traced() -> None:
    assert make_tracing(TracingSection(), MonotonicClock()) is None


async def test_a_collector_that_is_away_harms_nobody() -> None:
    pytest.importorskip("opentelemetry.sdk")
    pytest.importorskip("opentelemetry.exporter.otlp.proto.http")
    config = on_free_port(tracing=TracingSection(endpoint="http://127.0.0.1:9/v1/traces"))
    async with serving(config, quiet) as (url, _server), connect(url) as session:
        await session.send_text("Hello.")
        await session.done()
        assert [event async for event in session.utterance() if isinstance(event, Audio)]
