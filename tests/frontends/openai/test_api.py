"""Speech over HTTP, requested by OpenAI's client: complete or broken off, never a part that looks complete."""

import asyncio
import base64
import io
import json
import wave
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from typing import Any
from urllib.parse import urlsplit

import aiohttp
import numpy as np
import openai
import pytest
import soundfile
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from realtime_tts.audio.decode import decode_audio
from realtime_tts.audio.pcm import pcm_samples
from realtime_tts.clock import MonotonicClock
from realtime_tts.engine.config import EngineConfig
from realtime_tts.engine.executors.engine_thread import EngineThread
from realtime_tts.engine.models import tone
from realtime_tts.engine.stage import StageInput
from realtime_tts.frontends.openai.api import HttpLimits
from tests.fakes import Gate, raises_for, spoken_pcm, until
from tests.frontends.openai.harness import Served, serving

SENTENCES = ("Hello there, world.", "This is the second sentence.", "And a third one.")
TEXT = " ".join(SENTENCES)
LONG_TEXT = "This sentence is spoken again and again. " * 300


@pytest.fixture
async def served() -> AsyncIterator[Served]:
    async with serving() as served:
        yield served


def whole_pcm(**options: Any) -> bytes:
    return b"".join(spoken_pcm(sentence, **options) for sentence in SENTENCES)


WHOLE_S = len(whole_pcm()) / 48_000


# -- OpenAI's client --------------------------------------------------------------------------------------------------


async def test_the_openai_client_gets_every_sample_of_every_sentence(served: Served) -> None:
    async with served.openai() as client:
        answer = await client.audio.speech.create(model="tone", voice="tone_low", input=TEXT, response_format="pcm")
    assert answer.content == whole_pcm()
    assert answer.response.headers["Content-Type"] == "audio/pcm;rate=24000"
    await served.idle()


async def test_several_sentences_are_one_valid_file(served: Served) -> None:
    async with served.openai() as client:
        for response_format in ("mp3", "opus", "flac", "wav"):
            for stream in (None, True, False):
                case = (response_format, stream)
                answer = await client.audio.speech.create(
                    model="tone",
                    voice="tone_low",
                    input=TEXT,
                    response_format=response_format,
                    extra_body={} if stream is None else {"stream": stream},
                )
                samples, rate_hz = decode_audio(answer.content, max_bytes=10_000_000, max_s=60.0)
                if stream is not True:  # any program can read a file that has its length in front
                    assert len(soundfile.read(io.BytesIO(answer.content))[0]) == len(samples), case
                tolerance_s = 0.0001 if response_format in ("wav", "flac") else 0.2
                assert len(samples) / rate_hz == pytest.approx(WHOLE_S, abs=tolerance_s), case
                if response_format in ("wav", "flac"):
                    np.testing.assert_allclose(samples, pcm_samples(whole_pcm()), atol=1e-4)
                if stream is False:
                    assert int(answer.response.headers["Content-Length"]) == len(answer.content), case
    await served.idle()


async def test_aac_is_a_stream_of_adts_frames(served: Served) -> None:
    av = pytest.importorskip("av")
    for stream in (None, False):
        status, headers, body = await served.ask(input=TEXT, response_format="aac", stream=stream)
        assert (status, headers["Content-Type"]) == (200, "audio/aac"), stream
        with av.open(io.BytesIO(body), format="aac") as file:
            samples = sum(frame.samples for frame in file.decode(audio=0))
        assert samples / 24_000 == pytest.approx(WHOLE_S, abs=0.1), stream


async def test_without_its_package_aac_is_refused_with_what_to_install(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("realtime_tts.audio.format.find_spec", lambda _name: None)
    status, error = await served.refused(input=TEXT, response_format="aac")
    assert (status, error["code"], error["param"]) == (400, "unsupported_format", "response_format")
    assert "pip install 'realtime-tts[aac]'" in error["message"]


async def test_the_default_format_is_mp3(served: Served) -> None:
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


async def test_streamed_bytes_arrive_while_the_rest_is_still_made() -> None:
    gate = Gate()
    second = lambda rows: gate(rows) if rows[0].request.text == SENTENCES[1] else None  # noqa: E731
    async with serving(before=second) as served, served.openai() as client:
        try:
            async with client.audio.speech.with_streaming_response.create(
                model="tone", voice="tone_low", input=TEXT, response_format="pcm"
            ) as answer:
                pieces = answer.iter_bytes(4096)
                received = b""
                while len(received) < len(spoken_pcm(SENTENCES[0])) - 4096:
                    received += await anext(pieces)
                gate.opened.set()
                received += b"".join([piece async for piece in pieces])
            assert received == whole_pcm()
        finally:
            gate.opened.set()


def test_the_synchronous_client_works_too() -> None:
    async def main() -> bytes:
        async with serving() as served:
            return await asyncio.to_thread(blocking, served.url)

    def blocking(url: str) -> bytes:
        with openai.OpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0) as client:
            assert [model.id for model in client.models.list()] == ["tone"]
            assert client.models.retrieve("tone").owned_by == "realtime-tts"
            for name in ("tts-1", "tts-1-hd", "gpt-4o-mini-tts"):
                assert client.models.retrieve(name).id == name
            with pytest.raises(openai.NotFoundError) as unknown:
                client.models.retrieve("gpt/4")
            assert (unknown.value.code, unknown.value.param) == ("model_not_found", "model")
            return client.audio.speech.create(
                model="tone", voice="tone_high", input=TEXT, response_format="pcm"
            ).content

    assert asyncio.run(main()) == whole_pcm(voice="tone_high")


async def test_the_openai_client_raises_the_refusal(served: Served) -> None:
    async with served.openai() as client:
        with pytest.raises(openai.BadRequestError) as refused:
            await client.audio.speech.create(model="tone", voice="nobody", input="Hello.")
    assert (refused.value.code, refused.value.param, refused.value.type) == (
        "unknown_voice",
        "voice",
        "invalid_request_error",
    )
    assert "GET /v1/audio/voices" in refused.value.message


# -- Events -----------------------------------------------------------------------------------------------------------


def events_of(body: bytes) -> list[dict[str, Any]]:
    lines = body.decode().split("\n\n")
    assert lines.pop() == ""
    assert all(line.startswith("data: ") for line in lines)
    return [json.loads(line.removeprefix("data: ")) for line in lines]


async def test_events_contain_the_same_audio_and_the_usage(served: Served) -> None:
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


async def test_an_error_during_speech_is_an_event() -> None:
    async with serving(before=raises_for(SENTENCES[2])) as served:
        status, _headers, body = await served.ask(input=TEXT, response_format="pcm", stream_format="sse")
        await served.idle()
    assert status == 200
    *_deltas, event = events_of(body)
    assert event["type"] == "error"
    assert (event["error"]["code"], event["error"]["type"]) == ("synthesis_failed", "server_error")


# -- Options ----------------------------------------------------------------------------------------------------------


async def test_a_voice_is_selected_by_name_id_alias_or_default() -> None:
    async with serving(aliases={"nova": "tone_high"}) as served:
        for voice, expected in (
            ({"voice": "tone_high"}, "tone_high"),
            ({"voice": {"id": "tone_high"}}, "tone_high"),
            ({"speaker": "tone_high"}, "tone_high"),
            ({"voice": "nova"}, "tone_high"),
            ({"voice": None}, "tone_low"),
            ({}, "tone_low"),
        ):
            _status, _headers, body = await served.ask(input=TEXT, response_format="pcm", **voice)
            assert body == whole_pcm(voice=expected), voice


async def test_a_voice_is_ignored_where_instructions_make_the_voice() -> None:
    model = tone.build()
    info = replace(model.info, voices=(), default_voice=None, fields=frozenset({"instructions"}))
    spoken: list[str] = []
    record = lambda rows: spoken.extend(row.request.voice for row in rows)  # noqa: E731
    async with serving(replace(model, info=info), before=record) as served:
        status, headers, _body = await served.ask(input="Hello.", voice="alloy", instructions="An old man.")
    assert (status, headers["X-Realtime-TTS-Ignored"], set(spoken)) == (200, "voice", {""})


async def test_rate_and_speed_are_applied(served: Served) -> None:
    _status, headers, body = await served.ask(input=TEXT, response_format="pcm", sample_rate=8000)
    assert len(body) // 2 == round(len(whole_pcm()) / 2 / 3)
    assert headers["Content-Type"] == "audio/pcm;rate=8000"
    _status, _headers, body = await served.ask(input=TEXT, response_format="pcm", speed=2.0)
    assert body == whole_pcm(speed=2.0)


async def test_fields_without_effect_are_named_in_a_header(served: Served) -> None:
    status, headers, _body = await served.ask(
        model="tts-1", input="Hello.", instructions="Whisper!", seed=7, **{"x\r\nSet-Cookie: a=b": 1, "é": 2, "z": 3}
    )
    assert status == 200
    ignored = headers["X-Realtime-TTS-Ignored"].split(", ")
    assert {"model", "instructions", "seed", "z"} <= set(ignored)
    assert "Set-Cookie" not in headers
    _status, headers, _body = await served.ask(model="tone", input="Hello.")
    assert "X-Realtime-TTS-Ignored" not in headers


async def test_the_model_of_a_request_selects_the_engine() -> None:
    other = EngineThread(tone.build(), MonotonicClock(), config=EngineConfig(scheduler="policy_c"))
    gate = Gate()
    other.start()
    try:
        async with serving(before=gate, other_engines={"tone@policy_c": other}) as served:
            # The default engine waits for the gate, so this is made by the other one.
            status, headers, body = await served.ask(model="tone@policy_c", input=TEXT, response_format="pcm")
            assert (status, body) == (200, whole_pcm())
            assert "X-Realtime-TTS-Ignored" not in headers
            gate.opened.set()
            for model in ("tone", "tts-1"):
                assert (await served.ask(model=model, input=TEXT, response_format="pcm"))[2] == whole_pcm(), model
            assert [
                (each["id"], each["scheduler"], each["default"]) for each in (await served.get("/v1/models"))["data"]
            ] == [
                ("tone", "deadline", True),
                ("tone@policy_c", "policy_c", False),
            ]
            assert (await served.get("/v1/models/tone@policy_c"))["id"] == "tone@policy_c"
    finally:
        gate.opened.set()
        await other.stop()


# -- Refusals ---------------------------------------------------------------------------------------------------------

BAD_FIELDS: list[tuple[dict[str, Any], str, str]] = [
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
    ({"input": "Hi.", "response_format": "AAC"}, "unsupported_format", "response_format"),
    ({"input": "Hi.", "response_format": "midi"}, "unsupported_format", "response_format"),
    ({"input": "Hi.", "sample_rate": 7999}, "unsupported_format", "sample_rate"),
    ({"input": "Hi.", "sample_rate": "fast"}, "invalid_message", "sample_rate"),
    ({"input": "Hi.", "response_format": "mp3", "sample_rate": 47_999}, "unsupported_format", "sample_rate"),
    ({"input": "Hi.", "speed": 5}, "invalid_config", "speed"),
    ({"input": "Hi.", "speed": "quick"}, "invalid_message", "speed"),
    ({"input": "Hi.", "seed": -1}, "invalid_config", "seed"),
    ({"input": "Hi.", "language": "Klingon"}, "invalid_config", "language"),
    ({"input": "Hi.", "model": 5}, "invalid_message", "model"),
    ({"input": "Hi.", "ref_audio": "AAAA"}, "invalid_config", "ref_audio"),
    ({"input": "Hi.", "stream_format": "smoke"}, "invalid_message", "stream_format"),
    ({"input": "Hi.", "stream": "yes"}, "invalid_message", "stream"),
]


async def test_a_bad_field_is_refused_by_name(served: Served) -> None:
    for fields, code, param in BAD_FIELDS:
        status, error = await served.refused(**fields)
        assert (status, error["code"], error["param"]) == (400, code, param), (fields, error)
        assert error["type"] == "invalid_request_error"
        assert set(error) == {"message", "type", "param", "code"}
    await served.idle()


async def test_every_unknown_path_and_method_of_the_api_has_an_error_in_json(served: Served) -> None:
    for method, path, status, code in (
        ("GET", "/v1/nothing", 404, "not_found"),
        ("POST", "/v1/audio/nothing", 404, "not_found"),
        ("GET", "/v1/", 404, "not_found"),
        ("GET", "/v1/audio/speech", 405, "method_not_allowed"),
        ("PUT", "/v1/models", 405, "method_not_allowed"),
        ("OPTIONS", "/v1/models", 405, "method_not_allowed"),
        ("GET", "/v1/models/nothing", 404, "model_not_found"),
    ):
        async with served.http.request(method, served.url + path) as response:
            assert response.status == status, path
            assert (await response.json())["error"]["code"] == code, path


async def test_the_models_are_also_listed_for_open_webui(served: Served) -> None:
    assert await served.get("/v1/audio/models") == {"models": [{"id": "tone", "name": "tone"}]}


async def test_markdown_is_not_spoken_unless_the_request_asks_for_it() -> None:
    spoken: list[str] = []
    async with serving(before=lambda rows: spoken.extend(row.request.text for row in rows)) as served:
        for filters, text in ((None, "Bold words."), ([], "**Bold** words.")):
            status, _headers, _body = await served.ask(input="**Bold** words.", text_filters=filters)
            assert (status, spoken[-1]) == (200, text)
    async with serving(
        before=lambda rows: spoken.extend(row.request.text for row in rows), limits=HttpLimits(text_filters=("urls",))
    ) as served:
        await served.ask(input="**See** https://a.example/b.")
    assert spoken[-1] == "**See** a.example."


async def test_a_body_that_is_not_an_object_is_refused(served: Served) -> None:
    headers = {"Content-Type": "application/json"}
    for body in (
        *(b"", b"{", b"[]", b"7", b'"input"', b"\xff\xfe", b'{"input":NaN}', b"null"),
        *(b"[" * 100_000, b'{"a":' * 50_000),
    ):
        async with served.http.post(f"{served.url}/v1/audio/speech", data=body, headers=headers) as response:
            assert response.status == 400, body[:20]
            assert (await response.json())["error"]["code"] == "invalid_message"


async def test_a_form_of_a_page_of_another_origin_is_not_read_as_json(served: Served) -> None:
    for kind in ("text/plain", "application/x-www-form-urlencoded"):
        async with served.http.post(
            f"{served.url}/v1/audio/speech", data=b'{"input":"Hi."}', headers={"Content-Type": kind}
        ) as response:
            assert response.status == 415


async def test_a_body_that_is_too_large_or_never_ends_is_refused() -> None:
    async with serving(limits=HttpLimits(body_timeout_s=0.2)) as served:
        async with served.http.post(
            f"{served.url}/v1/audio/speech", data=b" " * 300_000, headers={"Content-Type": "application/json"}
        ) as response:
            assert response.status == 413
        reader, writer = await asyncio.open_connection(urlsplit(served.url).hostname, urlsplit(served.url).port)
        head = b"POST /v1/audio/speech HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        writer.write(head + b"Content-Length: 100\r\n\r\n{")
        assert (await reader.readline()).split()[1] == b"408"
        writer.close()


async def test_text_of_any_script_is_spoken_with_its_lone_surrogates_replaced(served: Served) -> None:
    body = '{"input":"Hello \\ud83d there. ' + "你好，世界。" * 200 + '","response_format":"pcm"}'
    headers = {"Content-Type": "application/json"}
    async with served.http.post(f"{served.url}/v1/audio/speech", data=body.encode(), headers=headers) as response:
        assert response.status == 200
        assert await response.read()


async def test_a_refusal_by_the_server_has_its_reason_and_the_time_to_retry() -> None:
    async with serving(max_sessions=0) as served:
        status, headers, body = await served.ask(input=TEXT)
        error = json.loads(body)["error"]
        assert (status, headers["Retry-After"]) == (503, "5")
        assert error == {
            "message": "all 0 sessions are in use",
            "type": "server_error",
            "param": None,
            "code": "overloaded",
        }


async def test_a_full_engine_states_when_to_retry() -> None:
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


# -- Failures and disconnects -----------------------------------------------------------------------------------------


async def test_a_failure_before_the_first_byte_has_a_status() -> None:
    async with serving(before=raises_for(SENTENCES[0])) as served:
        status, error = await served.refused(input=TEXT, response_format="pcm")
        assert (status, error["code"], error["type"]) == (500, "synthesis_failed", "server_error")
        assert "boom" not in error["message"]
        await served.idle()


async def test_a_failure_after_the_first_byte_breaks_the_connection() -> None:
    async with serving(before=raises_for(SENTENCES[2])) as served:
        for response_format in ("pcm", "mp3", "flac", "wav"):
            with pytest.raises(aiohttp.ClientError):
                await served.ask(input=TEXT, response_format=response_format, stream=True)
        await served.idle()


async def test_a_file_whose_end_fails_is_not_begun() -> None:
    async with serving(before=raises_for(SENTENCES[2])) as served:
        for response_format in ("wav", "flac"):
            status, error = await served.refused(input=TEXT, response_format=response_format)
            assert (status, error["code"]) == (500, "synthesis_failed"), response_format


async def test_a_server_that_stops_answers_with_503() -> None:
    gate = Gate()
    async with serving(before=gate) as served:
        asking = asyncio.create_task(served.refused(input=TEXT))
        await until(lambda: served.server.active_sessions == 1 and gate.entered.is_set())
        stopping = asyncio.create_task(served.server.sessions.stop())
        status, error = await asking
        assert (status, error["code"]) == (503, "server_stopping")
        gate.opened.set()
        await stopping
        await served.idle()


async def test_a_disconnect_before_the_first_byte_stops_the_work(caplog: pytest.LogCaptureFixture) -> None:
    gate = Gate()
    async with serving(before=gate) as served:
        asking = asyncio.create_task(served.ask(input=LONG_TEXT))
        await until(lambda: gate.entered.is_set() and served.server.engine_status().active_requests > 0)
        asking.cancel()
        await asyncio.gather(asking, return_exceptions=True)
        await until(lambda: served.server.active_sessions == 0)
        gate.opened.set()
        await served.idle()
    assert not caplog.records, "a disconnect is not an error of the server"


async def test_a_disconnect_during_speech_stops_the_work(caplog: pytest.LogCaptureFixture) -> None:
    model = tone.build(costs=tone.ToneCosts(a0_s=0.002))
    async with serving(model) as served:
        for response_format in ("pcm", "mp3", "wav"):
            for reads in (0, 1, 3):
                async with served.http.post(
                    f"{served.url}/v1/audio/speech",
                    json={"input": LONG_TEXT, "response_format": response_format, "stream": True},
                ) as response:
                    for _ in range(reads):
                        await response.content.readany()
                    response.close()
                await served.idle()
    assert not caplog.records, "a disconnect is not an error of the server"


async def test_a_client_that_does_not_read_delays_only_its_own_speech() -> None:
    begun: set[str] = set()

    def count(rows: Sequence[StageInput]) -> None:
        begun.update(row.request.text + row.request.request_id for row in rows)

    async with serving(before=count) as served:
        url = urlsplit(served.url)
        _reader, writer = await asyncio.open_connection(url.hostname, url.port, limit=1024)
        body = json.dumps({"input": LONG_TEXT, "response_format": "pcm", "sample_rate": 48_000, "speed": 0.25}).encode()
        head = "POST /v1/audio/speech HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: "
        writer.write(f"{head}{len(body)}\r\n\r\n".encode() + body)
        await until(lambda: len(begun) > 0)
        before = 0
        while before != len(begun):
            before = len(begun)
            await asyncio.sleep(0.2)
        assert before < LONG_TEXT.count(".") / 2, "all was made for a client that reads nothing"
        _status, _headers, other = await served.ask(input=TEXT, response_format="pcm")
        assert other == whole_pcm()
        writer.transport.abort()
        await served.idle()


async def test_nothing_is_spoken_before_the_config_is_accepted() -> None:
    spoken: list[str] = []

    def record(rows: Sequence[StageInput]) -> None:
        spoken.extend(row.request.text for row in rows)

    async with serving(before=record) as served:
        assert (await served.refused(input="This must not be spoken.", speed=5))[0] == 400
        await served.ask(input="Hello.")
        assert set(spoken) == {"Hello."}


async def test_one_sentence_without_words_is_skipped(served: Served) -> None:
    text = f"{SENTENCES[0]} \U0001f600 !!! {SENTENCES[1]}"
    status, _headers, body = await served.ask(input=text, response_format="pcm")
    assert status == 200
    assert body.startswith(spoken_pcm(SENTENCES[0]))


async def test_many_concurrent_requests_get_their_own_speech(served: Served) -> None:
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


def test_no_json_causes_an_internal_error() -> None:
    async def main() -> None:
        async with serving() as served:
            await asyncio.to_thread(send_anything, served.url)
            await served.idle()

    def send_anything(url: str) -> None:
        loop = asyncio.new_event_loop()

        @settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
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
