"""Whatever a client sends, or does not: a typed outcome, a living server, and a neighbour who notices nothing."""

import asyncio
import json
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from typing import Any

import pytest
import websockets.asyncio.client

from realtime_tts.engine.config import EngineConfig
from realtime_tts.engine.models import tone
from realtime_tts.engine.stage import Model
from realtime_tts.server.app import ServerLimits
from realtime_tts.session.limits import SessionLimits
from tests.base_client import BaseClient, base_client, raw_socket
from tests.fakes import raises_for, slots, spoken_pcm, until, wrapped
from tests.neighbour import STREAM, attacked
from tests.serving import tone_server

LIMITS = SessionLimits()


async def goes_on(client: BaseClient) -> None:
    """The session still speaks, exactly."""
    utterance = await client.speak("Hello again.")
    assert utterance.audio == [spoken_pcm("Hello again.")]


async def ends(client: BaseClient, code: str, close_code: int) -> None:
    """The session is told why it ends, by a message and by the close frame."""
    error = await client.next("error")
    assert (error["code"], error["fatal"]) == (code, True)
    assert await client.close_code() == close_code


# -- Messages that are none -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("frame", "code"),
    [
        (b"\x00\x01", "unexpected_message"),
        ("[]", "invalid_message"),
        ("null", "invalid_message"),
        ('"text"', "invalid_message"),
        ("{}", "invalid_message"),
        ('{"type": null}', "invalid_message"),
        ('{"type": ["input.text"]}', "invalid_message"),
        ('{"type": "input.audio"}', "invalid_message"),
        ('{"type": "\\ud800"}', "invalid_message"),
        ('{"type": "input.text"}', "invalid_message"),
        ('{"type": "input.text", "text": null}', "invalid_message"),
        ('{"type": "input.text", "text": 1}', "invalid_message"),
        ('{"type": "input.text", "text": ["a"]}', "invalid_message"),
    ],
)
async def test_a_bad_message_is_answered_and_the_session_goes_on(frame: str | bytes, code: str) -> None:
    async with attacked() as url, base_client(url, **STREAM) as client:
        await client.socket.send(frame)
        error = await client.next("error")
        assert (error["code"], error["fatal"]) == (code, False)
        await goes_on(client)


@pytest.mark.parametrize(
    "frame", ["", "hello", "{", '{"type": "input.text", "text": "\\uZZZZ"}', "[" * 100_000, '{"a":' * 30_000]
)
async def test_what_is_not_json_ends_the_session_with_1007(frame: str) -> None:
    async with attacked() as url, base_client(url, **STREAM) as client:
        await client.socket.send(frame)
        await ends(client, "invalid_message", 1007)


async def test_a_binary_frame_before_any_config_ends_the_session_with_1008() -> None:
    async with attacked() as url, base_client(url) as client:
        await client.socket.send(b"\x00" * 100)
        await ends(client, "unexpected_message", 1008)


async def test_text_that_is_not_utf_8_ends_the_session_with_1007() -> None:
    async with attacked() as url, base_client(url, **STREAM) as client:
        await client.next("session.updated")
        await client.socket.send(b'{"type": "input.text", "text": "\xff\xfe"}', text=True)
        assert await client.close_code() == 1007


async def test_frames_that_break_the_websocket_protocol_end_the_session_with_1002() -> None:
    async with attacked() as url:
        reader, writer = await raw_socket(url)
        writer.write(bytes.fromhex("8f8000000000") + os.urandom(64))  # opcode 15
        answer = await asyncio.wait_for(reader.read(), 10)
        assert b"\x88" in answer
        assert (1002).to_bytes(2, "big") in answer
        writer.close()


async def test_a_message_in_many_fragments_is_one_message() -> None:
    async with attacked() as url, base_client(url, **STREAM) as client:
        message = json.dumps({"type": "input.text", "text": "Hällo thère, 你好."}, ensure_ascii=False).encode()
        await client.socket.send([message[i : i + 3] for i in range(0, len(message), 3)], text=True)
        await client.send({"type": "input.done"})
        assert (await client.utterance()).audio == [spoken_pcm("Hällo thère, 你好.")]


async def test_a_stream_of_bad_messages_ends_the_session_with_1008() -> None:
    async with attacked() as url, base_client(url, **STREAM) as client:
        for _ in range(10):
            await client.socket.send("{}")
            assert not (await client.next("error"))["fatal"]
        await goes_on(client)  # a good one in between: they count in a row
        for _ in range(1000):
            await client.socket.send("{}")
        for _ in range(10):
            assert not (await client.next("error"))["fatal"]
        await ends(client, "too_many_invalid_messages", 1008)


async def test_after_session_close_only_what_was_asked_before_is_finished() -> None:
    model = tone.build(costs=tone.ToneCosts(a0_s=0.002))
    async with attacked(model=model) as url, base_client(url, **STREAM) as client:
        await client.send({"type": "input.text", "text": "Hello there."})
        await client.send({"type": "session.close"})
        await client.say("Too late.")
        utterance = await client.utterance()
        assert utterance.texts == ["Hello there."]
        assert {error["code"] for error in utterance.errors} == {"unexpected_message"}
        assert await client.close_code() == 1000


# -- Configs ----------------------------------------------------------------------------------------------------------

HUGE = "9" * 400
CONFIG_TYPES = {
    "model": str,
    "voice": str,
    "speaker": str,
    "language": str,
    "response_format": str,
    "sample_rate": int,
    "stream_audio": bool,
    "speed": float,
    "initial_codec_chunk_frames": int,
    "continuity_threshold_ms": float,
}
FITS: dict[type, tuple[type, ...]] = {str: (str,), int: (int,), bool: (bool,), float: (int, float)}


async def test_every_config_field_of_a_wrong_type_is_refused_by_name() -> None:
    limits = replace(LIMITS, max_invalid_messages=1000)
    async with attacked(limits) as url, base_client(url, **STREAM) as client:
        for field, kind in CONFIG_TYPES.items():
            for value in (1, "1", True, 1.5, [], [1], {}, {"a": 1}):
                if type(value) in FITS[kind]:
                    continue
                await client.config(**{field: value})
                error = await client.next("error")
                assert (error["code"], error["fatal"]) == ("invalid_message", False), (field, value)
                assert field in error["message"], (field, value)
        await goes_on(client)


@pytest.mark.parametrize(
    ("field", "values", "code"),
    [
        ("voice", ['""', '"nobody"', '"\\ud800"', '"../tone_low"', '"TONE_LOW"', f'"{"x" * 9999}"'], "unknown_voice"),
        ("speaker", ['"nobody"'], "unknown_voice"),
        ("response_format", ['"aac"', '""', '"WAV"', '"\\udfff"', f'"{"x" * 9999}"'], "unsupported_format"),
        ("sample_rate", ["7999", "48001", "0", "-1", "-24000", HUGE, f"-{HUGE}"], "unsupported_format"),
        ("sample_rate", ["NaN", "Infinity", "1e400", "24000.5"], "invalid_message"),
        ("speed", ["0", "0.24", "4.01", "-1", "NaN", "Infinity", "-Infinity", "1e400", "1e-400"], "invalid_config"),
        ("speed", [HUGE], "invalid_message"),
        ("initial_codec_chunk_frames", ["0", "-1", "1001", HUGE], "invalid_config"),
        ("continuity_threshold_ms", ["-1", "NaN", "Infinity", "1e300"], "invalid_config"),
        ("language", ['"Klingon"', '""', '"xx-US"', '"\\ud800"'], "invalid_config"),
    ],
)
async def test_a_config_out_of_range_changes_nothing(field: str, values: list[str], code: str) -> None:
    async with attacked() as url, base_client(url, **STREAM) as client:
        for value in values:
            await client.socket.send(f'{{"type": "session.config", "{field}": {value}}}')
            error = await client.next("error")
            assert (error["code"], error["fatal"]) == (code, False), value
            assert len(error["message"]) < 400
        await goes_on(client)


@pytest.mark.parametrize(
    "config",
    [
        '{"type":"session.config","language":"en-\\ud800"}',
        '{"type":"session.config","\\udc00":1,"' + "k" * 9999 + '":1}',
    ],
)
async def test_what_is_sent_back_to_the_client_can_always_be_sent(config: str) -> None:
    async with attacked() as url, base_client(url, **STREAM) as client:
        await client.next("session.updated")
        await client.socket.send(config)
        assert len(json.dumps(await client.next("session.updated"))) < 2000
        await goes_on(client)


# -- Texts ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [256 * 1024, 1_000_000, 1024 * 1024])
async def test_a_message_too_big_is_told_so_before_the_close(size: int) -> None:
    async with attacked() as url, base_client(url, **STREAM) as client:
        await client.send({"type": "input.text", "text": "x" * size})
        await ends(client, "message_too_big", 1009)


async def test_a_message_far_too_big_is_not_even_read() -> None:
    async with attacked() as url, base_client(url, **STREAM) as client:
        await client.next("session.updated")
        with_code = asyncio.create_task(client.close_code())
        with suppress(websockets.exceptions.ConnectionClosed):
            await client.send({"type": "input.text", "text": "x" * 30_000_000})
        assert await with_code in (1009, 1006)  # a reset may overtake the close frame while so much is on its way


async def test_more_text_than_may_wait_is_refused_and_the_session_goes_on() -> None:
    async with attacked() as url, base_client(url, **STREAM) as client:
        await client.send({"type": "input.text", "text": "x" * 200_000})
        error = await client.next("error")
        assert (error["code"], error["fatal"], error["retryable"]) == ("text_too_long", False, True)
        await goes_on(client)


@pytest.mark.parametrize("pieces", [[], [""], ["", ""], [" "], ["\n\t\u3000\u200b "], [" "] * 500])
async def test_nothing_to_say_is_an_empty_utterance(pieces: list[str]) -> None:
    async with attacked() as url, base_client(url, **STREAM) as client:
        utterance = await client.speak("", lambda _text: pieces)
        assert utterance.done["total_sentences"] == 0
        assert not utterance.errors
        await goes_on(client)


@pytest.mark.parametrize(
    "text", ["...", "?!", "—", "😀", "👩‍👩‍👧‍👦 🇩🇪", "***", "\x00\x01\x1b", "\u202e", "\ud83d", "\udc00!", "。」", "´`^"]
)
async def test_text_without_words_is_a_warning_and_not_silence(text: str) -> None:
    async with attacked() as url, base_client(url, **STREAM) as client:
        utterance = await client.speak(text)
        assert utterance.done["total_sentences"] == 0
        assert [warning["code"] for warning in utterance.warnings] == ["nothing_to_speak"]
        assert not utterance.errors
        await goes_on(client)


async def test_fifty_thousand_lines_without_a_word_are_few_warnings() -> None:
    async with attacked() as url, base_client(url, **STREAM) as client:
        utterance = await client.speak("!\n" * 40_000)
        assert utterance.done["total_sentences"] == 0
        assert 1 <= len(utterance.warnings) <= 21, "one for each block that is taken in"
        await goes_on(client)


async def test_tens_of_thousands_of_tiny_sentences_wait_without_a_resampler_each() -> None:
    async with attacked() as url, base_client(url, **STREAM, sample_rate=8000) as client:
        await client.send({"type": "input.text", "text": "a\n" * 40_000})
        await client.next("audio.done")


async def test_a_surrogate_pair_cut_across_two_messages_is_one_character() -> None:
    async with attacked() as url, base_client(url, **STREAM) as client:
        for half in ("Well \\ud83d", "\\ude00 done."):
            await client.socket.send(f'{{"type": "input.text", "text": "{half}"}}')
        await client.send({"type": "input.done"})
        utterance = await client.utterance()
        assert utterance.texts == ["Well 😀 done."]


async def test_lone_surrogates_inside_words_are_replaced_and_spoken_round() -> None:
    async with attacked() as url, base_client(url, **STREAM) as client:
        await client.socket.send('{"type": "input.text", "text": "A \\ud800 b \\udfff. C\\udc00d."}')
        await client.send({"type": "input.done"})
        utterance = await client.utterance()
        assert "".join(utterance.texts).count("\ufffd") == 3
        assert utterance.audio == [spoken_pcm(text) for text in utterance.texts]


@pytest.mark.parametrize(
    "text",
    [
        "x" * 5000,
        "a " * 2000,
        "e\u0301" * 400,
        "\u202bשלום עולם. مرحبا",
        "1" * 999,
        "Dr. " * 500,
        "字" * 900,
    ],
)
async def test_odd_text_is_spoken_whole(text: str) -> None:
    async with attacked() as url, base_client(url, **STREAM) as client:
        utterance = await client.speak(text)
        assert "".join("".join(utterance.texts).split()) == "".join(text.split())
        assert utterance.audio == [spoken_pcm(sentence) for sentence in utterance.texts]


# -- Limits of time ----------------------------------------------------------------------------------------------------


async def test_a_client_that_never_says_a_thing_is_ended_when_its_time_is_over() -> None:
    async with attacked(replace(LIMITS, idle_s=0.2)) as url, base_client(url) as client:
        await ends(client, "session_expired", 1001)


async def test_a_session_s_life_is_limited_even_in_mid_sentence() -> None:
    model = tone.build(costs=tone.ToneCosts(a0_s=0.05))
    async with tone_server(model, ServerLimits(session=replace(LIMITS, session_s=0.3))) as (url, _server):
        async with base_client(url, **STREAM) as client:
            await client.say("This takes its time to say.")
            await ends(client, "session_expired", 1001)
        await until(lambda: slots(model) == 0)


# -- Stages that fail -------------------------------------------------------------------------------------------------


@asynccontextmanager
async def one_client(model: Model, **config: Any) -> AsyncIterator[BaseClient]:
    async with tone_server(model) as (url, _server), base_client(url, **config or STREAM) as client:
        yield client


@pytest.mark.parametrize("stage", ["talker", "code2wav"])
@pytest.mark.parametrize("config", [STREAM, {"response_format": "wav"}])
async def test_a_stage_that_raises_fails_that_sentence_and_the_next_one_speaks(
    stage: str, config: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    model = tone.build(max_batch=1)  # what a stage raises fails its whole batch
    async with one_client(wrapped(model, stage, raises_for("This one fails.")), **config) as client:
        utterance = await client.speak("This one works. This one fails. This one works too.")
        assert [sentence.failed for sentence in utterance.sentences] == [False, True, False]
        assert [(error["code"], error["sentence_index"]) for error in utterance.errors] == [("synthesis_failed", 1)]
        assert "boom" not in utterance.errors[0]["message"]
        assert utterance.sentences[1].done["reason"] == "error"
        assert not utterance.sentences[1].audio
        assert utterance.sentences[2].audio.endswith(spoken_pcm("This one works too."))
    assert "boom" in caplog.text
    assert slots(model) == 0


async def test_a_stage_that_raises_in_mid_sentence_ends_it_where_it_was() -> None:
    calls = 0

    def third_time(_batch: object) -> None:
        nonlocal calls
        calls += 1
        if calls == 3:
            raise RuntimeError("boom")

    model = tone.build()
    text = "This is a sentence that is long enough to be spoken in several chunks."
    async with one_client(wrapped(model, "code2wav", third_time)) as client:
        utterance = await client.speak(text)
        assert utterance.sentences[0].failed
        assert len(utterance.sentences[0].frames) == 2
        assert spoken_pcm(text).startswith(utterance.sentences[0].audio)
        await goes_on(client)
    assert slots(model) == 0


async def test_where_every_sentence_fails_the_session_still_goes_on() -> None:
    broken = True

    def while_broken(_batch: object) -> None:
        if broken:
            raise RuntimeError("boom")

    async with one_client(wrapped(tone.build(), "talker", while_broken)) as client:
        for _ in range(5):
            utterance = await client.speak("One is here. Two is here. Three is here.")
            assert [sentence.failed for sentence in utterance.sentences] == [True] * 3
            assert utterance.done["continuity"]["continuity_ok"] is False
        broken = False
        await goes_on(client)


async def test_a_session_that_is_refused_before_any_sound_ends_with_1013_and_the_one_that_speaks_goes_on() -> None:
    model = tone.build(costs=tone.ToneCosts(a0_s=0.002))
    text = "This one speaks for quite a while and is not to be disturbed."
    async with tone_server(model, config=EngineConfig(max_requests=1)) as (url, server):
        async with base_client(url, **STREAM) as speaker, base_client(url, **STREAM) as refused:
            await speaker.say(text)
            await until(lambda: server.engine_status().active_requests == 1)
            await refused.say("No room for this.")
            await ends(refused, "overloaded", 1013)
            utterance = await speaker.utterance()
            assert utterance.audio == [spoken_pcm(text)]
        await until(lambda: slots(model) == 0)
