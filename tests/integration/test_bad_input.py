"""Any input of a client has a typed outcome, and does not affect another client."""

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
from tests.neighbour import STREAM, shared_server
from tests.serving import tone_server

LIMITS = SessionLimits()


async def still_works(client: BaseClient) -> None:
    """Asserts that the session still works."""
    utterance = await client.speak("Hello again.")
    assert utterance.audio == [spoken_pcm("Hello again.")]


async def ends(client: BaseClient, code: str, close_code: int) -> None:
    """Asserts that the session ends with an error message and a close frame."""
    error = await client.next("error")
    assert (error["code"], error["fatal"]) == (code, True)
    assert await client.close_code() == close_code


# -- Invalid messages -------------------------------------------------------------------------------------------


async def test_an_invalid_message_is_answered_and_the_session_continues() -> None:
    async with shared_server() as url, base_client(url, **STREAM) as client:
        for frame, code in (
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
        ):
            await client.socket.send(frame)
            error = await client.next("error")
            assert (error["code"], error["fatal"]) == (code, False), frame
            await still_works(client)


async def test_a_message_that_is_not_json_ends_the_session_with_1007() -> None:
    async with shared_server() as url:
        for frame in (
            *("", "hello", "{", '{"type": "input.text", "text": "\\uZZZZ"}'),
            *("[" * 100_000, '{"a":' * 30_000),
        ):
            async with base_client(url, **STREAM) as client:
                await client.socket.send(frame)
                await ends(client, "invalid_message", 1007)


async def test_a_binary_frame_before_any_config_ends_the_session_with_1008() -> None:
    async with shared_server() as url, base_client(url) as client:
        await client.socket.send(b"\x00" * 100)
        await ends(client, "unexpected_message", 1008)


async def test_text_that_is_not_utf_8_ends_the_session_with_1007() -> None:
    async with shared_server() as url, base_client(url, **STREAM) as client:
        await client.next("session.updated")
        await client.socket.send(b'{"type": "input.text", "text": "\xff\xfe"}', text=True)
        assert await client.close_code() == 1007


async def test_frames_that_break_the_websocket_protocol_end_the_session_with_1002() -> None:
    async with shared_server() as url:
        reader, writer = await raw_socket(url)
        writer.write(bytes.fromhex("8f8000000000") + os.urandom(64))  # opcode 15
        # The close frame: its opcode, its length, its code.
        async with asyncio.timeout(10):
            await reader.readuntil(b"\x88\x11" + (1002).to_bytes(2, "big"))
        writer.close()


async def test_a_message_in_many_fragments_is_one_message() -> None:
    async with shared_server() as url, base_client(url, **STREAM) as client:
        message = json.dumps({"type": "input.text", "text": "Hällo thère, 你好."}, ensure_ascii=False).encode()
        await client.socket.send([message[i : i + 3] for i in range(0, len(message), 3)], text=True)
        await client.send({"type": "input.done"})
        assert (await client.utterance()).audio == [spoken_pcm("Hällo thère, 你好.")]


async def test_a_stream_of_bad_messages_ends_the_session_with_1008() -> None:
    async with shared_server() as url, base_client(url, **STREAM) as client:
        for _ in range(10):
            await client.socket.send("{}")
            assert not (await client.next("error"))["fatal"]
        await still_works(client)  # a good one in between: they count in a row
        for _ in range(1000):
            await client.socket.send("{}")
        for _ in range(10):
            assert not (await client.next("error"))["fatal"]
        await ends(client, "too_many_invalid_messages", 1008)


async def test_after_session_close_only_earlier_text_is_finished() -> None:
    model = tone.build(costs=tone.ToneCosts(a0_s=0.002))
    async with shared_server(model=model) as url, base_client(url, **STREAM) as client:
        await client.send({"type": "input.text", "text": "Hello there."})
        await client.send({"type": "session.close"})
        await client.send_utterance("Too late.")
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
    async with shared_server(limits) as url, base_client(url, **STREAM) as client:
        for field, kind in CONFIG_TYPES.items():
            for value in (1, "1", True, 1.5, [], [1], {}, {"a": 1}):
                if type(value) in FITS[kind]:
                    continue
                await client.config(**{field: value})
                error = await client.next("error")
                assert (error["code"], error["fatal"]) == ("invalid_message", False), (field, value)
                assert field in error["message"], (field, value)
        await still_works(client)


OUT_OF_RANGE = (
    ("voice", ['""', '"nobody"', '"\\ud800"', '"../tone_low"', '"TONE LOW"', f'"{"x" * 9999}"'], "unknown_voice"),
    ("speaker", ['"nobody"'], "unknown_voice"),
    ("response_format", ['"AAC"', '""', '"WAV"', '"\\udfff"', f'"{"x" * 9999}"'], "unsupported_format"),
    ("sample_rate", ["7999", "48001", "0", "-1", "-24000", HUGE, f"-{HUGE}"], "unsupported_format"),
    ("sample_rate", ["NaN", "Infinity", "1e400", "24000.5"], "invalid_message"),
    ("speed", ["0", "0.24", "4.01", "-1", "NaN", "Infinity", "-Infinity", "1e400", "1e-400"], "invalid_config"),
    ("speed", [HUGE], "invalid_message"),
    ("initial_codec_chunk_frames", ["-1", "1001", HUGE], "invalid_config"),
    ("continuity_threshold_ms", ["-1", "NaN", "Infinity", "1e300"], "invalid_config"),
    ("language", ['"Klingon"', '""', '"xx-US"', '"\\ud800"'], "invalid_config"),
)


async def test_a_config_out_of_range_changes_nothing() -> None:
    async with shared_server(replace(LIMITS, max_invalid_messages=1000)) as url, base_client(url, **STREAM) as client:
        for field, values, code in OUT_OF_RANGE:
            for value in values:
                await client.socket.send(f'{{"type": "session.config", "{field}": {value}}}')
                error = await client.next("error")
                assert (error["code"], error["fatal"]) == (code, False), (field, value)
                assert len(error["message"]) < 400
            await still_works(client)


async def test_what_is_sent_back_to_the_client_is_valid_and_short() -> None:
    async with shared_server() as url, base_client(url, **STREAM) as client:
        await client.next("session.updated")
        for config in (
            '{"type":"session.config","language":"en-\\ud800"}',
            '{"type":"session.config","\\udc00":1,"' + "k" * 9999 + '":1}',
        ):
            await client.socket.send(config)
            assert len(json.dumps(await client.next("session.updated"))) < 2000
            await still_works(client)


# -- Texts ------------------------------------------------------------------------------------------------------------


async def test_a_message_too_big_gets_an_error_before_the_close() -> None:
    async with shared_server() as url:
        for size in (256 * 1024, 1_000_000, 1024 * 1024):
            async with base_client(url, **STREAM) as client:
                await client.send({"type": "input.text", "text": "x" * size})
                await ends(client, "message_too_big", 1009)


@pytest.mark.slow
async def test_a_message_far_too_big_is_not_read() -> None:
    async with shared_server() as url, base_client(url, **STREAM) as client:
        await client.next("session.updated")
        with_code = asyncio.create_task(client.close_code())
        with suppress(websockets.exceptions.ConnectionClosed):
            await client.send({"type": "input.text", "text": "x" * 30_000_000})
        assert await with_code in (1009, 1006)  # a reset may overtake the close frame while so much is on its way


async def test_more_unspoken_text_than_the_limit_is_refused_and_the_session_continues() -> None:
    async with shared_server() as url, base_client(url, **STREAM) as client:
        await client.send({"type": "input.text", "text": "x" * 200_000})
        error = await client.next("error")
        assert (error["code"], error["fatal"], error["retryable"]) == ("text_too_long", False, True)
        await still_works(client)


async def test_blank_text_is_an_empty_utterance() -> None:
    async with shared_server() as url, base_client(url, **STREAM) as client:
        for pieces in ([], [""], ["", ""], [" "], ["\n\t\u3000\u200b "], [" "] * 500):
            utterance = await client.speak("", lambda _text, pieces=pieces: pieces)  # type: ignore[misc]
            assert utterance.done["total_sentences"] == 0, pieces
            assert not utterance.errors
        await still_works(client)


async def test_text_without_words_is_a_warning_and_not_silence() -> None:
    async with shared_server() as url, base_client(url, **STREAM) as client:
        for text in (
            *(
                "...",
                "?!",
                "—",
                "😀",
                "👩‍👩‍👧‍👦 🇩🇪",
                "***",
                "\x00\x01\x1b",
                "\u202e",
                "\ud83d",
                "\udc00!",
                "。」",
                "´`^",
            ),
        ):
            utterance = await client.speak(text)
            assert utterance.done["total_sentences"] == 0, text
            assert [warning["code"] for warning in utterance.warnings] == ["nothing_to_speak"], text
            assert not utterance.errors
        await still_works(client)


async def test_many_lines_without_a_word_are_few_warnings() -> None:
    async with shared_server() as url, base_client(url, **STREAM) as client:
        utterance = await client.speak("!\n" * 40_000)
        assert utterance.done["total_sentences"] == 0
        assert 1 <= len(utterance.warnings) <= 21, "one for each block of text"
        await still_works(client)


async def test_many_short_sentences_wait_without_a_resampler_each() -> None:
    async with shared_server() as url, base_client(url, **STREAM, sample_rate=8000) as client:
        await client.send({"type": "input.text", "text": "a\n" * 20_000})
        await client.next("audio.done")


async def test_a_surrogate_pair_cut_across_two_messages_is_one_character() -> None:
    async with shared_server() as url, base_client(url, **STREAM) as client:
        for half in ("Well \\ud83d", "\\ude00 done."):
            await client.socket.send(f'{{"type": "input.text", "text": "{half}"}}')
        await client.send({"type": "input.done"})
        utterance = await client.utterance()
        assert utterance.texts == ["Well 😀 done."]


async def test_lone_surrogates_inside_words_are_replaced_and_spoken_round() -> None:
    async with shared_server() as url, base_client(url, **STREAM) as client:
        await client.socket.send('{"type": "input.text", "text": "A \\ud800 b \\udfff. C\\udc00d."}')
        await client.send({"type": "input.done"})
        utterance = await client.utterance()
        assert "".join(utterance.texts).count("\ufffd") == 3
        assert utterance.audio == [spoken_pcm(text) for text in utterance.texts]


async def test_unusual_text_is_spoken_whole() -> None:
    async with shared_server() as url, base_client(url, **STREAM) as client:
        for text in (
            "x" * 700,
            "a " * 300,
            "e\u0301" * 160,
            "\u202bשלום עולם. مرحبا",
            "1" * 400,
            "Dr. " * 100,
            "字" * 400,
        ):
            utterance = await client.speak(text)
            assert "".join("".join(utterance.texts).split()) == "".join(text.split()), text[:20]
            assert utterance.audio == [spoken_pcm(sentence) for sentence in utterance.texts], text[:20]


# -- Time limits -----------------------------------------------------------------------------------------------------


async def test_a_client_that_never_sends_anything_reaches_the_idle_limit() -> None:
    async with shared_server(replace(LIMITS, idle_s=0.2)) as url, base_client(url) as client:
        await ends(client, "session_expired", 1001)


async def test_a_session_s_duration_is_limited_even_in_mid_sentence() -> None:
    model = tone.build(costs=tone.ToneCosts(a0_s=0.05))
    async with tone_server(model, ServerLimits(session=replace(LIMITS, session_s=0.3))) as (url, _server):
        async with base_client(url, **STREAM) as client:
            await client.send_utterance("This takes its time to say.")
            await ends(client, "session_expired", 1001)
        await until(lambda: slots(model) == 0)


# -- Stages that fail -------------------------------------------------------------------------------------------------


@asynccontextmanager
async def one_client(model: Model, **config: Any) -> AsyncIterator[BaseClient]:
    async with tone_server(model) as (url, _server), base_client(url, **config or STREAM) as client:
        yield client


async def test_a_stage_that_raises_fails_that_sentence_and_the_next_one_is_spoken(
    caplog: pytest.LogCaptureFixture,
) -> None:
    for stage in ("talker", "code2wav"):
        for config in (STREAM, {"response_format": "wav"}):
            model = tone.build(max_batch=1, decode_batch=1)  # an exception of a stage fails its whole batch
            async with one_client(wrapped(model, stage, raises_for("This one fails.")), **config) as client:
                utterance = await client.speak("This one works. This one fails. This one works too.")
                assert [sentence.failed for sentence in utterance.sentences] == [False, True, False], stage
                errors = [(error["code"], error["sentence_index"]) for error in utterance.errors]
                assert errors == [("synthesis_failed", 1)]
                assert "boom" not in utterance.errors[0]["message"]
                assert utterance.sentences[1].done["reason"] == "error"
                assert not utterance.sentences[1].audio
                assert utterance.sentences[2].audio.endswith(spoken_pcm("This one works too."))
            assert slots(model) == 0
    assert "boom" in caplog.text


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
        await still_works(client)
    assert slots(model) == 0


async def test_a_session_continues_after_failures_of_every_sentence() -> None:
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
        await still_works(client)


async def test_a_session_refused_before_any_audio_ends_with_1013_and_others_continue() -> None:
    model = tone.build(costs=tone.ToneCosts(a0_s=0.002))
    text = "This one speaks for some time and must not be disturbed."
    async with tone_server(model, config=EngineConfig(max_requests=1)) as (url, server):
        async with base_client(url, **STREAM) as speaker, base_client(url, **STREAM) as refused:
            await speaker.send_utterance(text)
            await until(lambda: server.engine_status().active_requests == 1)
            await refused.send_utterance("No room for this.")
            await ends(refused, "overloaded", 1013)
            utterance = await speaker.utterance()
            assert utterance.audio == [spoken_pcm(text)]
        await until(lambda: slots(model) == 0)
