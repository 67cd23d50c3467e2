"""Speech over HTTP, as OpenAI's own client asks for it: whole or broken off, never a part that looks whole."""

import asyncio
import base64
import io
import json
import os
import wave
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import aiohttp
import numpy as np
import openai
import pytest
import soundfile
from aiohttp import web
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from realtime_tts.audio.decode import decode_audio
from realtime_tts.audio.pcm import pcm_samples
from realtime_tts.clock import MonotonicClock
from realtime_tts.engine.api import Reference
from realtime_tts.engine.config import EngineConfig
from realtime_tts.engine.executors.engine_thread import EngineThread
from realtime_tts.engine.models import tone
from realtime_tts.engine.stage import Model, StageInput
from realtime_tts.errors import Overloaded, RealtimeTTSError
from realtime_tts.frontends.openai.api import HttpApi, HttpLimits, add_routes
from realtime_tts.server.access import Refused
from realtime_tts.session.frontend import FrontEnd
from realtime_tts.session.limits import SessionLimits
from realtime_tts.session.runner import SessionRunner
from realtime_tts.session.session import Session
from realtime_tts.voices.store import References, VoiceLimits, VoiceStore
from tests.fakes import Gate as Held
from tests.fakes import raises_for, slots, spoken_pcm, until, wrapped

SENTENCES = ("Hello there, world.", "This is the second sentence.", "And a third one.")
TEXT = " ".join(SENTENCES)
LONG_TEXT = "This sentence is spoken again and again. " * 300


class Places:
    """What the server does for every session: counts it, and may refuse it."""

    def __init__(self, engine: EngineThread, limits: SessionLimits, references: References) -> None:
        self.refusal: Exception | None = None
        self.connections: set[SessionRunner] = set()
        self.sessions = 0
        self._engine = engine
        self._limits = limits
        self._references = references

    @asynccontextmanager
    async def open_session(self, _request: web.Request, front_end: FrontEnd) -> AsyncIterator[SessionRunner]:
        if self.refusal is not None:
            raise self.refusal
        clock = MonotonicClock()
        self.sessions += 1
        info = self._engine.info
        session = Session(
            f"s{self.sessions}", {info.name: info}, self._limits, now_s=clock.now_s(), expires_at_unix_s=0.0
        )
        engines = {info.name: self._engine}
        connection = SessionRunner(front_end, engines, session, clock, self._limits, fetch_reference=self._references)
        self.connections.add(connection)
        try:
            yield connection
        finally:
            self.connections.remove(connection)


class Served:
    """A running server, and what a test looks at."""

    def __init__(self, url: str, engine: EngineThread, places: Places, model: Model) -> None:
        self.url = url
        self.engine = engine
        self.places = places
        self.model = model
        self.http = aiohttp.ClientSession()

    def openai(self) -> openai.AsyncOpenAI:
        return openai.AsyncOpenAI(base_url=f"{self.url}/v1", api_key="none", max_retries=0)

    async def ask(self, **fields: object) -> tuple[int, Any, bytes]:
        """Status, headers and body."""
        async with self.http.post(f"{self.url}/v1/audio/speech", json=fields) as response:
            return response.status, response.headers, await response.read()

    async def refused(self, **fields: object) -> tuple[int, dict[str, Any]]:
        status, _headers, body = await self.ask(**fields)
        return status, json.loads(body)["error"]

    async def idle(self) -> None:
        """Nothing of any request is left."""
        await until(lambda: not self.places.connections and self.engine.status().active_requests == 0)
        await until(lambda: slots(self.model) == 0)


@asynccontextmanager
async def serving(
    model: Model | None = None,
    *,
    before: Callable[[Sequence[StageInput]], None] | None = None,
    config: EngineConfig | None = None,
    limits: HttpLimits | None = None,
    session_limits: SessionLimits | None = None,
    store: VoiceStore | None = None,
    aliases: dict[str, str] | None = None,
) -> AsyncIterator[Served]:
    """`before` is called with each batch of the Talker."""
    model = model or tone.build()
    watched = model if before is None else wrapped(model, "talker", before)
    engine = EngineThread(watched, MonotonicClock(), config=config)
    engine.start()
    places = Places(engine, session_limits or SessionLimits(), References(store))
    app = web.Application()
    add_routes(app, HttpApi(engine, places.open_session, limits, store=store, aliases=aliases))
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=1.0)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    served = Served(f"http://127.0.0.1:{runner.addresses[0][1]}", engine, places, model)
    try:
        yield served
    finally:
        await served.http.close()
        await runner.cleanup()
        await engine.stop()


@pytest.fixture
async def served() -> AsyncIterator[Served]:
    async with serving() as served:
        yield served


def whole_pcm(**options: Any) -> bytes:
    return b"".join(spoken_pcm(sentence, **options) for sentence in SENTENCES)


WHOLE_S = len(whole_pcm()) / 48_000


# -- OpenAI's client --------------------------------------------------------------------------------------------------


async def test_openai_s_client_gets_every_sample_of_every_sentence(served: Served) -> None:
    async with served.openai() as client:
        answer = await client.audio.speech.create(model="tone", voice="tone_low", input=TEXT, response_format="pcm")
    assert answer.content == whole_pcm()
    assert answer.response.headers["Content-Type"] == "audio/pcm;rate=24000"
    await served.idle()


@pytest.mark.parametrize("response_format", ["mp3", "opus", "flac", "wav"])
@pytest.mark.parametrize("stream", [None, True, False])
async def test_several_sentences_are_one_valid_file(served: Served, response_format: Any, stream: bool | None) -> None:
    async with served.openai() as client:
        answer = await client.audio.speech.create(
            model="tone",
            voice="tone_low",
            input=TEXT,
            response_format=response_format,
            extra_body={} if stream is None else {"stream": stream},
        )
    samples, rate_hz = decode_audio(answer.content, max_bytes=10_000_000, max_s=60.0)
    if stream is not True:  # what has its length in front can be read by anybody
        assert len(soundfile.read(io.BytesIO(answer.content))[0]) == len(samples)
    assert len(samples) / rate_hz == pytest.approx(WHOLE_S, abs=0.0001 if response_format in ("wav", "flac") else 0.2)
    if response_format in ("wav", "flac"):
        np.testing.assert_allclose(samples, pcm_samples(whole_pcm()), atol=1e-4)
    if stream is False:
        assert int(answer.response.headers["Content-Length"]) == len(answer.content)
    await served.idle()


async def test_mp3_is_what_comes_where_nothing_is_said(served: Served) -> None:
    async with served.openai() as client:
        answer = await client.audio.speech.create(model="tone", voice="tone_low", input="Hello.")
    assert answer.response.headers["Content-Type"] == "audio/mpeg"
    assert soundfile.info(io.BytesIO(answer.content)).format == "MP3"


async def test_a_wav_has_its_size_in_front(served: Served) -> None:
    _status, headers, body = await served.ask(input=TEXT, response_format="wav")
    with wave.open(io.BytesIO(body)) as file:
        assert file.readframes(file.getnframes()) == whole_pcm()
        assert file.getnframes() == len(whole_pcm()) // 2
    assert headers["Content-Length"] == str(len(body))


async def test_streamed_bytes_come_while_the_rest_is_still_made() -> None:
    held = Held()
    second = lambda rows: held(rows) if rows[0].request.text == SENTENCES[1] else None  # noqa: E731
    async with serving(before=second) as served, served.openai() as client:
        try:
            async with client.audio.speech.with_streaming_response.create(
                model="tone", voice="tone_low", input=TEXT, response_format="pcm"
            ) as answer:
                pieces = answer.iter_bytes(4096)
                got = b""
                while len(got) < len(spoken_pcm(SENTENCES[0])) - 4096:
                    got += await anext(pieces)
                held.opened.set()
                got += b"".join([piece async for piece in pieces])
            assert got == whole_pcm()
        finally:
            held.opened.set()


def test_the_plain_client_works_too() -> None:
    async def main() -> bytes:
        async with serving() as served:
            return await asyncio.to_thread(blocking, served.url)

    def blocking(url: str) -> bytes:
        with openai.OpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0) as client:
            assert [model.id for model in client.models.list()] == ["tone"]
            assert client.models.retrieve("tone").owned_by == "realtime-tts"
            with pytest.raises(openai.NotFoundError):
                client.models.retrieve("gpt/4")
            return client.audio.speech.create(
                model="tone", voice="tone_high", input=TEXT, response_format="pcm"
            ).content

    assert asyncio.run(main()) == whole_pcm(voice="tone_high")


async def test_openai_s_client_raises_what_was_refused(served: Served) -> None:
    async with served.openai() as client:
        with pytest.raises(openai.BadRequestError) as refused:
            await client.audio.speech.create(model="tone", voice="alloy", input="Hello.")
    assert (refused.value.code, refused.value.param, refused.value.type) == (
        "unknown_voice",
        "voice",
        "invalid_request_error",
    )
    assert "tone_low, tone_high" in refused.value.message


# -- Events -----------------------------------------------------------------------------------------------------------


def events_of(body: bytes) -> list[dict[str, Any]]:
    lines = body.decode().split("\n\n")
    assert lines.pop() == ""
    assert all(line.startswith("data: ") for line in lines)
    return [json.loads(line.removeprefix("data: ")) for line in lines]


async def test_events_hold_the_same_sound_and_tell_the_use(served: Served) -> None:
    status, headers, body = await served.ask(input=TEXT, response_format="pcm", stream_format="sse")
    assert (status, headers["Content-Type"]) == (200, "text/event-stream")
    *deltas, done = events_of(body)
    assert {event["type"] for event in deltas} == {"speech.audio.delta"}
    assert b"".join(base64.b64decode(event["audio"]) for event in deltas) == whole_pcm()
    assert len(deltas) > 1
    frames = len(whole_pcm()) // 2 // tone.SAMPLES_PER_FRAME
    assert done == {
        "type": "speech.audio.done",
        "usage": {
            "input_tokens": len(TEXT),
            "output_tokens": frames,
            "total_tokens": len(TEXT) + frames,
            "characters": len(TEXT),
            "audio_ms": frames * 80.0,
        },
    }


async def test_an_error_in_mid_speech_is_an_event() -> None:
    async with serving(before=raises_for(SENTENCES[2])) as served:
        status, _headers, body = await served.ask(input=TEXT, response_format="pcm", stream_format="sse")
        await served.idle()
    assert status == 200
    *_deltas, error = events_of(body)
    assert (error["type"], error["error"]["code"], error["error"]["type"]) == (
        "error",
        "synthesis_failed",
        "server_error",
    )


# -- What is asked for ------------------------------------------------------------------------------------------------


async def test_voices_come_by_name_by_id_by_alias_or_by_default() -> None:
    async with serving(aliases={"nova": "tone_high"}) as served:
        for voice, expected in (
            ({"voice": "tone_high"}, "tone_high"),
            ({"voice": {"id": "tone_high"}}, "tone_high"),
            ({"voice": "nova"}, "tone_high"),
            ({"voice": None}, "tone_low"),
            ({}, "tone_low"),
        ):
            _status, _headers, body = await served.ask(input=TEXT, response_format="pcm", **voice)
            assert body == whole_pcm(voice=expected), voice


async def test_the_rate_is_the_one_that_was_asked_for(served: Served) -> None:
    _status, headers, body = await served.ask(input=TEXT, response_format="pcm", sample_rate=8000)
    assert len(body) // 2 == round(len(whole_pcm()) / 2 / 3)
    assert headers["Content-Type"] == "audio/pcm;rate=8000"


async def test_speed_is_the_session_s(served: Served) -> None:
    _status, _headers, body = await served.ask(input=TEXT, response_format="pcm", speed=2.0)
    assert body == whole_pcm(speed=2.0)


async def test_what_changes_nothing_is_named_in_a_header(served: Served) -> None:
    status, headers, _body = await served.ask(
        model="tts-1", input="Hello.", instructions="Whisper!", seed=7, **{"x\r\nSet-Cookie: a=b": 1, "é": 2, "z": 3}
    )
    assert status == 200
    ignored = headers["X-Realtime-TTS-Ignored"].split(", ")
    assert {"model", "instructions", "seed", "z"} <= set(ignored)
    assert "Set-Cookie" not in headers
    _status, headers, _body = await served.ask(model="tone", input="Hello.")
    assert "X-Realtime-TTS-Ignored" not in headers


# -- Refusals ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fields", "code", "param"),
    [
        ({}, "invalid_message", "input"),
        ({"input": 5}, "invalid_message", "input"),
        ({"input": ""}, "nothing_to_speak", "input"),
        ({"input": " \n"}, "nothing_to_speak", "input"),
        ({"input": "?! ... \U0001f600"}, "nothing_to_speak", "input"),
        ({"input": "x" * 16_385}, "text_too_long", "input"),
        ({"input": "Hi. " * 1025, "response_format": "wav"}, "text_too_long", "input"),
        ({"input": "Hi.", "voice": "nobody"}, "unknown_voice", "voice"),
        ({"input": "Hi.", "voice": {"id": "nobody"}}, "unknown_voice", "voice"),
        ({"input": "Hi.", "voice": {"name": "tone_low"}}, "invalid_message", "voice"),
        ({"input": "Hi.", "voice": 7}, "invalid_message", "voice"),
        ({"input": "Hi.", "response_format": "aac"}, "unsupported_format", "response_format"),
        ({"input": "Hi.", "response_format": "midi"}, "unsupported_format", "response_format"),
        ({"input": "Hi.", "sample_rate": 7999}, "unsupported_format", "sample_rate"),
        ({"input": "Hi.", "sample_rate": "fast"}, "invalid_message", "sample_rate"),
        ({"input": "Hi.", "response_format": "mp3", "sample_rate": 47_999}, "unsupported_format", "sample_rate"),
        ({"input": "Hi.", "speed": 5}, "invalid_config", "speed"),
        ({"input": "Hi.", "speed": "quick"}, "invalid_message", "speed"),
        ({"input": "Hi.", "seed": -1}, "invalid_config", "seed"),
        ({"input": "Hi.", "language": "Klingon"}, "invalid_config", "language"),
        ({"input": "Hi.", "ref_audio": "AAAA"}, "invalid_config", "ref_audio"),
        ({"input": "Hi.", "stream_format": "smoke"}, "invalid_message", "stream_format"),
        ({"input": "Hi.", "stream": "yes"}, "invalid_message", "stream"),
    ],
)
async def test_a_bad_field_is_refused_by_name(served: Served, fields: dict[str, Any], code: str, param: str) -> None:
    status, error = await served.refused(**fields)
    assert (status, error["code"], error["param"]) == (400, code, param), error
    assert error["type"] == "invalid_request_error"
    assert set(error) == {"message", "type", "param", "code"}
    await served.idle()


@pytest.mark.parametrize(
    "body",
    [b"", b"{", b"[]", b"7", b'"input"', b"\xff\xfe", b'{"input":NaN}', b"[" * 100_000, b'{"a":' * 50_000, b"null"],
)
async def test_a_body_that_is_no_object_is_refused(served: Served, body: bytes) -> None:
    headers = {"Content-Type": "application/json"}
    async with served.http.post(f"{served.url}/v1/audio/speech", data=body, headers=headers) as response:
        assert response.status == 400
        assert (await response.json())["error"]["code"] == "invalid_message"


async def test_a_form_of_a_foreign_page_is_not_taken_for_json(served: Served) -> None:
    for kind in ("text/plain", "application/x-www-form-urlencoded"):
        async with served.http.post(
            f"{served.url}/v1/audio/speech", data=b'{"input":"Hi."}', headers={"Content-Type": kind}
        ) as response:
            assert response.status == 415


async def test_a_body_without_an_end_is_cut_off() -> None:
    async with serving(limits=HttpLimits(body_timeout_s=0.2)) as served:
        async with served.http.post(
            f"{served.url}/v1/audio/speech", data=b" " * 300_000, headers={"Content-Type": "application/json"}
        ) as response:
            assert response.status == 413
        reader, writer = await asyncio.open_connection(urlsplit(served.url).hostname, urlsplit(served.url).port)
        head = b"POST /v1/audio/speech HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n"
        writer.write(head + b"Content-Length: 100\r\n\r\n{")
        assert (await reader.readline()).split()[1] == b"408"
        writer.close()


async def test_text_of_any_script_and_cut_anywhere_is_spoken(served: Served) -> None:
    body = (
        '{"input":"Hello \\ud83d there. ' + "\u4f60\u597d\uff0c\u4e16\u754c\u3002" * 1500 + '","response_format":"pcm"}'
    )
    headers = {"Content-Type": "application/json"}
    async with served.http.post(f"{served.url}/v1/audio/speech", data=body.encode(), headers=headers) as response:
        assert response.status == 200
        assert await response.read()


class QuotaUsedUp(RealtimeTTSError):
    code = "quota_exceeded"


@pytest.mark.parametrize(
    ("refusal", "status", "kind", "retry_after"),
    [
        (Refused(503, "not_ready", "the server is draining", {"Retry-After": "5"}), 503, "server_error", "5"),
        (Refused(403, "model_not_allowed", "this key may not"), 403, "invalid_request_error", None),
        (Overloaded("all places are taken", retry_after_s=2.5), 503, "server_error", "3"),
        (QuotaUsedUp("no characters are left today"), 429, "rate_limit_error", None),
    ],
)
async def test_whom_the_server_refuses_gets_nothing_but_the_reason(
    served: Served, refusal: RealtimeTTSError, status: int, kind: str, retry_after: str | None
) -> None:
    served.places.refusal = refusal
    got, headers, body = await served.ask(input=TEXT)
    error = json.loads(body)["error"]
    assert (got, error["type"], error["param"], headers.get("Retry-After")) == (status, kind, None, retry_after)
    assert error["message"] == refusal.message
    assert served.places.sessions == 0


async def test_an_engine_that_is_full_says_when_to_come_again() -> None:
    model = tone.build(costs=tone.ToneCosts(a0_s=0.002))
    async with serving(model, config=EngineConfig(max_requests=1)) as served:
        async with served.http.post(
            f"{served.url}/v1/audio/speech", json={"input": LONG_TEXT, "response_format": "pcm"}
        ) as first:
            await first.content.readany()
            status, headers, body = await served.ask(input="Hello.")
            assert (status, json.loads(body)["error"]["code"]) == (503, "overloaded")
            assert int(headers["Retry-After"]) >= 1
        await served.idle()


# -- Failures and departures ------------------------------------------------------------------------------------------


async def test_a_failure_before_the_first_byte_has_a_status() -> None:
    async with serving(before=raises_for(SENTENCES[0])) as served:
        status, error = await served.refused(input=TEXT, response_format="pcm")
        assert (status, error["code"], error["type"]) == (500, "synthesis_failed", "server_error")
        assert "boom" not in error["message"]
        await served.idle()


@pytest.mark.parametrize("response_format", ["pcm", "mp3", "flac", "wav"])
async def test_a_failure_after_the_first_byte_breaks_the_connection(response_format: str) -> None:
    async with serving(before=raises_for(SENTENCES[2])) as served:
        fields = {"input": TEXT, "response_format": response_format, "stream": True}
        with pytest.raises(aiohttp.ClientError):
            await served.ask(**fields)
        await served.idle()


@pytest.mark.parametrize("response_format", ["wav", "flac"])
async def test_a_file_that_lacks_its_end_is_not_begun(response_format: str) -> None:
    async with serving(before=raises_for(SENTENCES[2])) as served:
        status, error = await served.refused(input=TEXT, response_format=response_format)
        assert (status, error["code"]) == (500, "synthesis_failed")


async def test_a_server_that_stops_says_so_or_breaks_off() -> None:
    from realtime_tts.errors import ServerStopping

    held = Held()
    async with serving(before=held) as served:
        asking = asyncio.create_task(served.refused(input=TEXT))
        await until(lambda: bool(served.places.connections) and held.entered.is_set())
        for connection in served.places.connections:
            connection.end(ServerStopping("the server is stopping"))
        assert (await asking)[0] == 503
        held.opened.set()
        await served.idle()


async def test_whoever_hangs_up_before_the_first_byte_stops_the_work(caplog: pytest.LogCaptureFixture) -> None:
    held = Held()
    async with serving(before=held) as served:
        asking = asyncio.create_task(served.ask(input=LONG_TEXT))
        await until(lambda: held.entered.is_set() and served.engine.status().active_requests > 0)
        asking.cancel()
        await asyncio.gather(asking, return_exceptions=True)
        await until(lambda: not served.places.connections)
        held.opened.set()
        await served.idle()
    assert not caplog.records, "a client who leaves is no failure of ours"


@pytest.mark.parametrize("response_format", ["pcm", "mp3", "wav"])
async def test_whoever_hangs_up_in_mid_speech_stops_the_work(
    response_format: str, caplog: pytest.LogCaptureFixture
) -> None:
    model = tone.build(costs=tone.ToneCosts(a0_s=0.002))
    async with serving(model) as served:
        for hang_up_after in (0, 1, 3):
            async with served.http.post(
                f"{served.url}/v1/audio/speech",
                json={"input": LONG_TEXT, "response_format": response_format, "stream": True},
            ) as response:
                for _ in range(hang_up_after):
                    await response.content.readany()
                response.close()
            await served.idle()
    assert not caplog.records, "a client who leaves is no failure of ours"


async def test_a_client_who_does_not_read_holds_back_its_own_speech_alone() -> None:
    begun: set[str] = set()

    def count(rows: Sequence[StageInput]) -> None:
        begun.update(row.request.text + row.request.request_id for row in rows)

    async with serving(before=count) as served:
        url = urlsplit(served.url)
        _reader, writer = await asyncio.open_connection(url.hostname, url.port, limit=1024)
        body = json.dumps({"input": LONG_TEXT, "response_format": "pcm", "sample_rate": 48_000, "speed": 0.25}).encode()
        head = "POST /v1/audio/speech HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: "
        writer.write(f"{head}{len(body)}\r\n\r\n".encode() + body)
        await until(lambda: len(begun) > 0)
        before = 0
        while before != len(begun):
            before = len(begun)
            await asyncio.sleep(0.3)
        assert before < LONG_TEXT.count(".") / 2, "all was made for somebody who takes nothing"
        _status, _headers, other = await served.ask(input=TEXT, response_format="pcm")
        assert other == whole_pcm()
        writer.transport.abort()
        await served.idle()


async def test_nothing_is_spoken_before_the_config_is_accepted() -> None:
    spoken: list[str] = []

    def hear(rows: Sequence[StageInput]) -> None:
        spoken.extend(row.request.text for row in rows)

    async with serving(before=hear) as served:
        assert (await served.refused(input="This is not to be heard.", speed=5))[0] == 400
        await served.ask(input="Hello.")
        assert set(spoken) == {"Hello."}


async def test_one_sentence_without_words_is_passed_over(served: Served) -> None:
    text = f"{SENTENCES[0]} \U0001f600 !!! {SENTENCES[1]}"
    status, _headers, body = await served.ask(input=text, response_format="pcm")
    assert status == 200
    assert body.startswith(spoken_pcm(SENTENCES[0]))


async def test_many_at_once_hear_what_they_asked_for(served: Served) -> None:
    texts = [f"This is listener number {number}." for number in range(40)]
    answers = await asyncio.gather(*(served.ask(input=text, response_format="pcm") for text in texts))
    assert [body for _status, _headers, body in answers] == [spoken_pcm(text) for text in texts]
    await served.idle()


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)
NAMES = st.sampled_from(
    ["input", "voice", "model", "speed", "response_format", "sample_rate", "stream", "stream_format", "seed",
     "instructions", "ref_audio", "ref_text", "text_filters", "pronunciations", "speaker_embedding", "task_type",
     "split_granularity", "frame_header", "unknown", "type", "context_id", "top_k", "x_vector_only_mode"]
)  # fmt: skip


def test_no_json_brings_an_internal_error() -> None:
    async def main() -> None:
        async with serving() as served:
            await asyncio.to_thread(lambda: asks_anything(served.url, asyncio.new_event_loop()))
            await served.idle()

    def asks_anything(url: str, loop: asyncio.AbstractEventLoop) -> None:
        @settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
        @given(st.dictionaries(NAMES, JSON, max_size=5))
        def ask(fields: dict[str, Any]) -> None:
            loop.run_until_complete(post(url, {"input": "Hello.", **fields}))

        try:
            ask()
        finally:
            loop.close()

    async def post(url: str, fields: dict[str, Any]) -> None:
        async with aiohttp.ClientSession() as http, http.post(f"{url}/v1/audio/speech", json=fields) as response:
            body = await response.read()
            assert response.status in (200, 400), (fields, response.status, body[:300])
            if response.status == 200:
                assert body

    asyncio.run(main())


# -- Voices -----------------------------------------------------------------------------------------------------------


def cloning_model() -> Model:
    model = tone.build()
    fields = model.info.fields | {"ref_audio", "ref_text", "x_vector_only_mode"}
    return replace(model, info=replace(model.info, fields=fields))


def recording(seconds: float = 1.5) -> bytes:
    out = io.BytesIO()
    samples = 0.5 * np.sin(2 * np.pi * 300 * np.arange(round(seconds * 24_000)) / 24_000)
    soundfile.write(out, samples, 24_000, format="WAV")
    return out.getvalue()


def form(audio: bytes | None = None, **texts: str) -> aiohttp.FormData:
    data = aiohttp.FormData(default_to_multipart=True)
    for name, text in texts.items():
        data.add_field(name, text)
    if audio is not None:
        data.add_field("audio", audio, filename="me.wav", content_type="audio/wav")
    return data


async def test_voices_are_listed(served: Served) -> None:
    async with served.http.get(f"{served.url}/v1/audio/voices") as response:
        answer = await response.json()
    assert (answer["model"], answer["default"], answer["aliases"]) == ("tone", "tone_low", {})
    assert answer["voices"] == [
        {"name": voice.name, "language": voice.language, "uploaded": False} for voice in tone.VOICES
    ]


async def test_an_uploaded_voice_is_kept_spoken_with_and_removed(tmp_path: Path) -> None:
    model = cloning_model()
    heard: list[Reference | None] = []

    def hear(rows: Sequence[StageInput]) -> None:
        heard.extend(row.request.reference for row in rows)

    store = VoiceStore(tmp_path, reserved=model.info.voice_names)
    async with serving(model, before=hear, store=store) as served:
        url = f"{served.url}/v1/audio/voices"
        data = form(recording(), name="anna", consent="I am Anna, and I agree.", ref_text="A tone.")
        async with served.http.post(url, data=data) as response:
            assert response.status == 201
            assert (await response.json())["id"] == "anna"
        async with served.http.get(url) as response:
            uploaded = [voice for voice in (await response.json())["voices"] if voice["uploaded"]]
        assert [(voice["name"], voice["duration_s"]) for voice in uploaded] == [("anna", 1.5)]
        status, _headers, body = await served.ask(input="Hello.", voice="anna", response_format="pcm")
        assert (status, body) == (200, spoken_pcm("Hello."))
        assert heard[-1] is not None
        assert heard[-1].text == "A tone."
        assert VoiceStore(tmp_path).find("anna") is not None
        data = form(recording(), name="anna", consent="Yes, again.")
        async with served.http.post(url, data=data) as response:
            assert response.status == 409
        async with served.http.delete(f"{url}/anna") as response:
            assert await response.json() == {"id": "anna", "object": "audio.voice.deleted", "deleted": True}
        async with served.http.delete(f"{url}/anna") as response:
            assert response.status == 404
        assert (await served.refused(input="Hello.", voice="anna"))[1]["code"] == "unknown_voice"
        async with served.http.delete(f"{url}/tone_low") as response:
            assert response.status == 400


async def test_openai_s_client_uploads_a_voice_and_speaks_with_it(tmp_path: Path) -> None:
    async with serving(cloning_model(), store=VoiceStore(tmp_path)) as served, served.openai() as client:
        voice = await client.audio.voices.create(name="bert", consent="cons_1", audio_sample=("b.wav", recording()))
        assert (voice.id, voice.object) == ("bert", "audio.voice")
        # Without a text of the recording: by its speaker embedding alone.
        answer = await client.audio.speech.create(
            model="tone", voice={"id": voice.id}, input="Hello.", response_format="pcm"
        )
        assert answer.content == spoken_pcm("Hello.")


@pytest.mark.parametrize(
    ("data", "status", "param"),
    [
        (lambda: form(recording(), consent="Yes, I am the speaker."), 400, "name"),
        (lambda: form(recording(), name="anna"), 400, "consent"),
        (lambda: form(recording(), name="anna", consent="no"), 400, "consent"),
        (lambda: form(name="anna", consent="Yes."), 400, "audio"),
        (lambda: form(b"noise", name="anna", consent="Yes."), 400, "ref_audio"),
        (lambda: form(recording(0.5), name="anna", consent="Yes."), 400, "ref_audio"),
        (lambda: form(recording(), name="../anna", consent="Yes."), 400, "name"),
        (lambda: form(recording(), name="tone_low", consent="Yes."), 409, None),
        (lambda: form(recording(3.0), name="anna", consent="Yes."), 413, None),
        (lambda: form(recording(), name="anna", consent="Yes." * 10_000), 413, None),
        (lambda: form(recording(), name="anna", consent="Yes.", type="prompt"), 400, "type"),
        (lambda: form(recording(), **{f"x{number}": "" for number in range(20)}), 400, None),
        (lambda: {"name": "anna"}, 415, None),
    ],
)
async def test_a_bad_upload_is_refused_by_name(
    tmp_path: Path, data: Callable[[], Any], status: int, param: str | None
) -> None:
    store = VoiceStore(tmp_path, VoiceLimits(max_bytes=100_000), reserved=("tone_low",))
    async with (
        serving(cloning_model(), store=store) as served,
        served.http.post(f"{served.url}/v1/audio/voices", data=data()) as response,
    ):
        error = (await response.json())["error"]
        assert (response.status, error["param"]) == (status, param), error
    assert not store.voices()
    assert not any(os.scandir(tmp_path))


async def test_a_model_that_cannot_clone_takes_no_voices(tmp_path: Path) -> None:
    async with AsyncExitStack() as stack:
        for model, store, words in (
            (tone.build(), VoiceStore(tmp_path), "cannot clone"),
            (cloning_model(), None, "no folder"),
        ):
            served = await stack.enter_async_context(serving(model, store=store))
            data = form(recording(), name="anna", consent="Yes.")
            async with served.http.post(f"{served.url}/v1/audio/voices", data=data) as response:
                assert response.status == 400
                assert words in (await response.json())["error"]["message"]


@pytest.mark.filterwarnings("ignore::aiohttp.BadContentDispositionHeader", "ignore::aiohttp.BadContentDispositionParam")
def test_no_form_brings_an_internal_error(tmp_path: Path) -> None:
    good = (
        b'--b\r\nContent-Disposition: form-data; name="name"\r\n\r\nanna\r\n'
        b'--b\r\nContent-Disposition: form-data; name="consent"\r\n\r\nYes.\r\n'
        b'--b\r\nContent-Disposition: form-data; name="audio"; filename="a.wav"\r\n\r\nRIFF\r\n--b--\r\n'
    )
    kinds = ["multipart/form-data; boundary=b", "multipart/form-data", "multipart/form-data; boundary=" + "x" * 90]

    async def main() -> None:
        async with serving(cloning_model(), store=VoiceStore(tmp_path)) as served:
            await asyncio.to_thread(lambda: sends_anything(served.url, asyncio.new_event_loop()))

    def sends_anything(url: str, loop: asyncio.AbstractEventLoop) -> None:
        @settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
        @given(
            st.lists(st.tuples(st.integers(0, len(good)), st.binary(max_size=12)), max_size=4),
            st.integers(0, len(good)),
            st.sampled_from(kinds),
        )
        def send(edits: list[tuple[int, bytes]], cut: int, kind: str) -> None:
            data = bytearray(good)
            for at, what in edits:
                data[at : at + len(what)] = what
            loop.run_until_complete(post(url, bytes(data[: cut or None]), kind))

        try:
            send()
        finally:
            loop.close()

    async def post(url: str, data: bytes, kind: str) -> None:
        headers = {"Content-Type": kind}
        async with (
            aiohttp.ClientSession() as http,
            http.post(f"{url}/v1/audio/voices", data=data, headers=headers) as response,
        ):
            assert response.status in (400, 413, 415), (data, await response.read())

    asyncio.run(main())
