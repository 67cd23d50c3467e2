"""Composition root: a whole server runs as it is configured, and refuses before it loads a model."""

import asyncio
import json
import multiprocessing
import os
import re
import signal
import threading
from pathlib import Path

import aiohttp
import pytest
import websockets.asyncio.client

from realtime_tts.cli.build import (
    access_rules,
    key_store,
    make_tracing,
    planned_engines,
    references,
    serving,
    voice_store,
)
from realtime_tts.client import Audio, connect
from realtime_tts.clock import MonotonicClock
from realtime_tts.config.load import InvalidSetting
from realtime_tts.config.schema import (
    AuthSection,
    ClusterSection,
    EngineSection,
    HttpSection,
    MetricsSection,
    ModelSection,
    Secret,
    ServerConfig,
    ServerSection,
    TracingSection,
)
from realtime_tts.engine.models import tone
from realtime_tts.engine.scheduling.policy import SCHEDULERS
from realtime_tts.errors import CannotListen, InvalidConfig, ModelNotUsable, OperatorError
from realtime_tts.frontends.native.messages import STREAM_PATH
from realtime_tts.server.api_keys import key_line
from realtime_tts.session.limits import SessionLimits
from tests.fakes import spoken_pcm, until

TONE = ModelSection(name=("tone",))
KEY = "rtts_" + "k" * 40


def no_report(_line: str) -> None: ...


def on_free_port(**sections: object) -> ServerConfig:
    return ServerConfig(**{"server": ServerSection(port=0), "model": TONE, **sections})  # type: ignore[arg-type]


async def get(url: str, key: str | None = None) -> tuple[int, str]:
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    async with aiohttp.ClientSession() as client, client.get(url, headers=headers) as answer:
        return answer.status, await answer.text()


async def test_a_whole_server_speaks_and_counts() -> None:
    async with serving(on_free_port(), no_report) as (url, server):
        async with connect(url) as session:
            await session.send_text("Hello world. How are you?")
            await session.done()
            assert sum(len(event.data) for event in [e async for e in session.utterance()] if isinstance(event, Audio))
        status, text = await get(f"{url}/metrics")
        assert server.active_sessions == 0
    assert status == 200
    assert "realtime_tts_audio_duration_seconds_count 2.0" in text
    assert "realtime_tts_audio_ttfp_seconds_count 1.0" in text
    assert 'realtime_tts_stage_batch_size_count{engine="tone",stage="talker"}' in text
    assert 'realtime_tts_engine_ready{engine="tone"} 1.0' in text


async def test_without_metrics_there_is_no_metrics_endpoint() -> None:
    async with serving(on_free_port(metrics=MetricsSection(enabled=False)), no_report) as (url, _server):
        assert (await get(f"{url}/metrics"))[0] == 404


async def test_refusals_are_counted_by_reason() -> None:
    config = on_free_port(auth=AuthSection(keys=Secret(f"me={KEY}")))
    async with serving(config, no_report) as (url, _server):
        assert (await get(f"{url}/v1/audio/voices"))[0] == 401
        assert (await get(f"{url}/v1/audio/voices", KEY))[0] == 200
        text = (await get(f"{url}/metrics", KEY))[1]
    assert 'realtime_tts_sessions_rejected_total{reason="unauthorized"} 1.0' in text


async def test_sessions_have_the_configured_limits() -> None:
    config = on_free_port(session=SessionLimits(max_contexts=3))
    async with serving(config, no_report) as (url, _server), connect(url) as session:
        await session.send_text("Hello.")
        await session.done()
        events = [event async for event in session.utterance()]
    assert "max_contexts=3" in repr(events[0])


async def test_configured_aliases_select_voices_over_http_and_websocket() -> None:
    config = on_free_port(http=HttpSection(voice_aliases={"boss": "tone_high"}))
    async with serving(config, no_report) as (url, _server):
        _status, listed = await get(f"{url}/v1/audio/voices")
        assert json.loads(listed)["aliases"]["boss"] == "tone_high"
        async with connect(url, voice="boss") as session:
            await session.send_text("Hello.")
            await session.done()
            events = [event async for event in session.utterance()]
    assert "voice='tone_high'" in repr(events)
    with pytest.raises(InvalidSetting, match="nobody"):
        async with serving(on_free_port(http=HttpSection(voice_aliases={"boss": "nobody"})), no_report):
            pass


@pytest.mark.slow
async def test_listeners_hear_everything_when_a_replica_is_killed() -> None:
    text = "This is a sentence of some length, so that it takes some time to speak. And here is a second one, too."
    model = ModelSection(name=("tone",), options={"profile": "h200_stateful"})
    config = on_free_port(model=model, cluster=ClusterSection(replicas=2))

    async def listen(url: str, began: asyncio.Event) -> bytes:
        audio = b""
        async with connect(url) as session:
            await session.send_text(text)
            await session.done()
            async for event in session.utterance():
                if isinstance(event, Audio):
                    audio += event.data
                    began.set()
        return audio

    async with serving(config, no_report) as (url, server):
        await until(lambda: sum(each.ready for each in server.engine_status().replicas) == 2, 60)
        begun = [asyncio.Event() for _ in range(8)]
        listening = [asyncio.create_task(listen(url, each)) for each in begun]
        for each in begun:
            await each.wait()
        killed = next(each for each in multiprocessing.active_children() if each.name == "replica-0")
        assert killed.pid is not None
        os.kill(killed.pid, signal.SIGKILL)
        expected = spoken_pcm(text[: text.index(" And")]) + spoken_pcm(text[text.index("And") :])
        assert await asyncio.gather(*listening) == [expected] * 8
        metrics = (await get(f"{url}/metrics"))[1]
        readyz = json.loads((await get(f"{url}/readyz"))[1])
    assert 'realtime_tts_sentences_redone_total{engine="tone",outcome="resumed"}' in metrics
    assert 'realtime_tts_replica_ready{engine="tone",replica="replica-1"} 1.0' in metrics
    assert {each["name"] for each in readyz["replicas"]} >= {"replica-1"}


async def test_everything_ends_with_the_block() -> None:
    before = asyncio.all_tasks()
    async with serving(on_free_port(), no_report):
        assert asyncio.all_tasks() - before
    assert asyncio.all_tasks() == before


COMPARING = EngineSection(compare=("policy_c",))


def engine_threads() -> set[threading.Thread]:
    return {each for each in threading.enumerate() if each.name == "engine" or each.name.startswith("lane-")}


THREADS_PER_ENGINE = len({"engine", *tone.build().lanes})


def test_every_model_has_an_engine_and_the_first_one_more_for_each_scheduler_to_compare() -> None:
    config = ServerConfig(
        model=ModelSection(name=("kokoro", "tone")), engine=EngineSection("policy_c", compare=("deadline", "edf_only"))
    )
    planned = planned_engines(config)
    assert [(name, model.name, engine.scheduler) for name, model, engine in planned] == [
        ("kokoro", "kokoro", "policy_c"),
        ("tone", "tone", "policy_c"),
        ("kokoro@deadline", "kokoro", "deadline"),
        ("kokoro@edf_only", "kokoro", "edf_only"),
    ]


async def test_a_compared_scheduler_has_its_own_engine_and_its_own_metrics() -> None:
    before, reported = engine_threads(), list[str]()
    async with serving(on_free_port(engine=COMPARING), reported.append) as (url, server):
        assert len(engine_threads() - before) == 2 * THREADS_PER_ENGINE
        assert json.loads((await get(f"{url}/v1/demo"))[1])["schedulers"] == ["deadline", "policy_c"]
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
    assert 'realtime_tts_stage_batch_size_count{engine="tone@policy_c",stage="talker"}' in text
    assert 'realtime_tts_stage_batch_size_count{engine="tone",' not in text  # it had no work
    capacities = dict(re.findall(r'realtime_tts_engine_capacity\{engine="(.*?)"\} (\S+)', text))
    assert {name: capacity != "NaN" for name, capacity in capacities.items()} == {
        "tone": SCHEDULERS["deadline"].admission,
        "tone@policy_c": SCHEDULERS["policy_c"].admission,
    }
    assert reported == ["Loading tone ...", "Loading tone@policy_c ..."]
    assert engine_threads() <= before


async def spoken_bytes(url: str, model: str) -> int:
    async with connect(url, model=model) as session:
        await session.send_text("Hello world.")
        await session.done()
        return sum(len(event.data) for event in [e async for e in session.utterance()] if isinstance(event, Audio))


@pytest.mark.slow
@pytest.mark.model
async def test_a_server_speaks_with_every_model() -> None:
    models = ModelSection(name=("tone", "kokoro"), options={"kokoro.threads": 1})
    async with serving(on_free_port(model=models, engine=COMPARING), no_report) as (url, _server):
        for model in ("tone", "kokoro", "tone@policy_c"):
            assert await spoken_bytes(url, model), model
        text = (await get(f"{url}/metrics"))[1]
    engines = set(re.findall(r'stage_batch_size_count\{engine="(.*?)"', text))
    assert engines == {"tone", "kokoro", "tone@policy_c"}


async def test_if_an_engine_does_not_start_the_others_are_stopped() -> None:
    def fail(line: str) -> None:
        if "policy_c" in line:
            assert engine_threads() - before, "the first engine runs by now"
            raise ModelNotUsable("no memory is left for a second model")

    before, tasks = engine_threads(), asyncio.all_tasks()
    with pytest.raises(ModelNotUsable, match="second model"):
        async with serving(on_free_port(engine=COMPARING), fail):
            pass
    assert engine_threads() <= before
    assert asyncio.all_tasks() == tasks


async def test_if_the_port_is_taken_all_engines_are_stopped() -> None:
    before = engine_threads()
    async with serving(on_free_port(), no_report) as (url, _server):
        taken = ServerSection(port=int(url.rpartition(":")[2]))
        with pytest.raises(CannotListen):
            async with serving(on_free_port(server=taken, engine=COMPARING), no_report):
                pass
        assert len(engine_threads() - before) == THREADS_PER_ENGINE


async def test_quick_checks_come_before_the_model_is_loaded(tmp_path: Path) -> None:
    reported: list[str] = []
    bad_key_file = tmp_path / "keys"
    bad_key_file.write_text("me:nonsense\n")
    for sections in (
        {"auth": AuthSection(key_file=bad_key_file)},
        {"auth": AuthSection(key_file=tmp_path / "missing")},
        {"server": ServerSection(origins=("app.example",))},
        {"server": ServerSection(tls_cert=tmp_path / "missing", tls_key=tmp_path / "missing")},
    ):
        config = on_free_port(**{"model": ModelSection(name=("no such model",)), **sections})
        with pytest.raises(OperatorError) as caught:
            async with serving(config, reported.append):
                pass
        assert not isinstance(caught.value, ModelNotUsable)
        assert "nonsense" not in str(caught.value)


def test_keys_come_from_a_file_or_from_a_setting_or_there_are_none(tmp_path: Path) -> None:
    (tmp_path / "keys").write_text(f"# ours\n{key_line('me', KEY)}\n")
    for section in (AuthSection(key_file=tmp_path / "keys"), AuthSection(keys=Secret(f"me={KEY}"))):
        store = key_store(section)
        assert store is not None
        assert store.find(KEY) is not None
    assert key_store(AuthSection()) is None


def test_the_host_header_is_checked_if_the_names_of_the_server_are_known() -> None:
    for server, is_checked in (
        (ServerSection(), True),
        (ServerSection(host="0.0.0.0"), False),
        (ServerSection(host="0.0.0.0", hosts=("Tts.Example.com",)), True),
    ):
        rules = access_rules(ServerConfig(server=server))
        assert rules.check_host is is_checked, server
        assert rules.public_hosts == {host.lower() for host in server.hosts}, server


async def test_urls_and_uploads_work_only_if_the_operator_allows_them(tmp_path: Path) -> None:
    closed = references(HttpSection(), voice_store(HttpSection(), ()))
    with pytest.raises(InvalidConfig, match="keeps no uploaded voices"):
        await closed("voice:anna")
    with pytest.raises(InvalidConfig, match="fetches no URLs"):
        await closed("https://example.com/a.wav")
    section = HttpSection(voices_dir=tmp_path / "voices", allow_ref_audio_urls=True)
    opened = references(section, voice_store(section, ()))
    with pytest.raises(InvalidConfig, match="no uploaded voice 'anna'"):
        await opened("voice:anna")
    with pytest.raises(InvalidConfig, match="only https URLs"):
        await opened("http://example.com/a.wav")


def test_a_voice_folder_that_cannot_be_used_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InvalidSetting, match=re.escape(f"http.voices_dir: {tmp_path / 'file'}")):
        voice_store(HttpSection(voices_dir=tmp_path / "file"), ())


def test_a_skipped_voice_is_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "anna.json").write_text("{}")
    store = voice_store(HttpSection(voices_dir=tmp_path), ())
    assert store is not None
    assert not store.voices()
    assert "an uploaded voice is skipped: anna.json: " in caplog.text


def test_without_an_endpoint_there_is_no_tracing() -> None:
    assert make_tracing(TracingSection(), MonotonicClock()) is None


async def test_an_unreachable_collector_does_not_disturb_speech() -> None:
    pytest.importorskip("opentelemetry.sdk")
    pytest.importorskip("opentelemetry.exporter.otlp.proto.http")
    config = on_free_port(tracing=TracingSection(endpoint="http://127.0.0.1:9/v1/traces"))
    async with serving(config, no_report) as (url, _server), connect(url) as session:
        await session.send_text("Hello.")
        await session.done()
        assert [event async for event in session.utterance() if isinstance(event, Audio)]
