"""The message sequences of public clients of this protocol, and the audio that they get.

From the examples of vLLM-Omni (0.20.0, `examples/online_serving/text_to_speech/qwen3_tts/`; the commits and word times
from its main branch of 2026), and from SGLang-Omni's `speech_ws.py` (0.2).
"""

import asyncio
import base64
import json
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest
import websockets.asyncio.client
from websockets.exceptions import ConnectionClosed

from realtime_tts.engine.models import tone
from realtime_tts.server.app import ServerLimits
from realtime_tts.session.limits import SessionLimits
from tests.base_client import base_client, ws_url
from tests.fakes import spoken_pcm
from tests.serving import tone_server

VLLM_OMNI = {"speaker": "tone_high", "task_type": "CustomVoice", "language": "Auto", "speed": 1.0}
"""The fields that `streaming_speech_client.py` always sends."""
TEXT = "Hello world. How are you?"
SENTENCES = ["Hello world.", "How are you?"]


@pytest.fixture
async def url() -> AsyncIterator[str]:
    async with tone_server() as (url, _server):
        yield url


async def conversation(url: str, *messages: dict[str, Any], last: str = "session.done") -> list[Any]:
    """Sends all messages, and returns what is received up to a message of type `last`, or the close."""
    received: list[Any] = []
    async with asyncio.timeout(20), websockets.asyncio.client.connect(ws_url(url)) as socket:
        for message in messages:
            await socket.send(json.dumps(message))
        try:
            while not (received and isinstance(received[-1], dict) and received[-1]["type"] == last):
                frame = await socket.recv()
                received.append(frame if isinstance(frame, bytes) else json.loads(frame))
        except ConnectionClosed as closed:
            received.append({"type": "closed", "code": closed.rcvd and closed.rcvd.code})
    return received


def text(*pieces: str) -> list[dict[str, Any]]:
    return [*({"type": "input.text", "text": piece} for piece in pieces), {"type": "input.done"}]


def of(received: list[Any], kind: str) -> list[dict[str, Any]]:
    return [each for each in received if isinstance(each, dict) and each["type"] == kind]


def binary(received: list[Any]) -> bytes:
    return b"".join(each for each in received if isinstance(each, bytes))


def spoken(texts: list[str], voice: str) -> bytes:
    return b"".join(spoken_pcm(each, voice=voice) for each in texts)


async def test_vllm_omni_s_streaming_client_gets_its_voice_and_format(url: str) -> None:
    cases: list[dict[str, Any]] = [{"response_format": "wav"}, {"response_format": "pcm"}]
    for options in (*cases, {"response_format": "pcm", "speed": 1.25}):
        config = {"type": "session.config", **VLLM_OMNI, **options}
        received = await conversation(url, config, *text("Hello world. ", "How ", "are ", "you?"))
        assert not of(received, "error"), options
        assert [start["sentence_text"] for start in of(received, "audio.start")] == SENTENCES
        assert {start["format"] for start in of(received, "audio.start")} == {options["response_format"]}
        files = [each for each in received if isinstance(each, bytes)]
        header = 44 if options["response_format"] == "wav" else 0
        speed = options.get("speed", 1.0)
        expected = [spoken_pcm(each, voice="tone_high", speed=speed) for each in SENTENCES]
        assert [file[header:] for file in files] == expected, options
        assert of(received, "session.done")[0]["total_sentences"] == 2


async def test_vllm_omni_s_streaming_client_gets_audio_chunks_with_word_times(url: str) -> None:
    config = {"type": "session.config", **VLLM_OMNI, "response_format": "pcm", "stream_audio": True}
    received = await conversation(url, {**config, "word_timestamps": True}, *text(TEXT))
    assert not of(received, "error")
    assert not of(received, "audio.timestamps")
    assert all(start["word_timestamps"] for start in of(received, "audio.start"))
    chunks = of(received, "audio.chunk")
    audio = b"".join(base64.b64decode(chunk["audio_b64"]) for chunk in chunks)
    assert audio == spoken(SENTENCES, "tone_high")
    assert binary(received) == b""
    for index, words in enumerate((["Hello", "world"], ["How", "are", "you"])):
        *with_audio, last = [chunk for chunk in chunks if chunk["sentence_index"] == index]
        assert [chunk["chunk_id"] for chunk in with_audio] == list(range(len(with_audio)))
        assert all(chunk["timestamps"] is None for chunk in with_audio)
        assert with_audio[-1]["chunk_end_ms"] == last["chunk_end_ms"]
        assert [word["word"].strip(".?") for word in last["timestamps"]] == words
        assert last["audio_b64"] == ""
    done = of(received, "audio.done")
    assert [each["total_bytes"] for each in done] == [len(spoken_pcm(each)) for each in SENTENCES]


async def test_our_own_clients_keep_binary_audio_beside_word_times(url: str) -> None:
    config = {"type": "session.config", "response_format": "pcm", "stream_audio": True, "word_timestamps": True}
    received = await conversation(url, config, *text(TEXT))
    assert not of(received, "audio.chunk")
    assert binary(received) == spoken(SENTENCES, "tone_low")
    assert {each["status"] for each in of(received, "audio.timestamps")} == {"ok"}


async def test_vllm_omni_s_token_level_client_gets_audio_before_its_last_text(url: str) -> None:
    config = {"voice": "tone_high", "streaming_mode": "token_level", "response_format": "pcm"}
    async with asyncio.timeout(20), base_client(url, **config) as client:
        for piece in ("Hello there, ", "this is a token level ", "streaming test. ", "And "):
            await client.send({"type": "input.text", "text": piece})
        updated = await client.next("session.updated")
        assert (updated["ignored"], updated["config"]["stream_audio"]) == ([], True)
        start = await client.next("audio.start")
        assert (start["sample_rate"], start["format"]) == (24_000, "pcm")
        assert isinstance(await client.socket.recv(), bytes)
        await client.next("audio.done")
        await client.send_utterance("more.")
        assert (await client.next("audio.start"))["sentence_text"] == "And more."
        assert (await client.next("session.done"))["total_sentences"] == 2


async def test_vllm_omni_s_sentence_commit_client_gets_an_acknowledgement_of_each_sentence(url: str) -> None:
    sentences = ["Hello there, this first one. And more", " The second sentence resumes."]
    messages: list[dict[str, Any]] = [
        {"type": "session.config", "voice": "tone_high", "streaming_mode": "sentence_commit", "response_format": "pcm"}
    ]
    for index, sentence in enumerate(sentences):
        messages.append({"type": "input.text", "text": sentence})
        messages.append({"type": "input.commit", "commit_id": f"sentence-{index}"})
    received = await conversation(url, *messages, {"type": "input.done"})
    assert not of(received, "error")
    committed = of(received, "input.committed")
    assert [(each["commit_id"], each["sentence_index"], each["chars_committed"]) for each in committed] == [
        ("sentence-0", 0, len(sentences[0])),
        ("sentence-1", 1, len(sentences[1])),
    ]
    assert binary(received) == spoken([each.strip() for each in sentences], "tone_high")


async def test_a_client_whose_config_is_rejected_gets_no_audio_and_is_closed() -> None:
    limits = ServerLimits(session=SessionLimits(config_s=0.1))
    async with tone_server(tone.build(), limits) as (url, _server):
        rejected: dict[str, Any] = {"speaker": "nobody", "language": "Klingon", "task_type": "Base", "speed": 9}
        for field, value in rejected.items():
            config = {"type": "session.config", **VLLM_OMNI, field: value}
            received = await conversation(url, config, *text(TEXT))
            assert binary(received) == b"", field
            assert not of(received, "audio.start"), field
            assert of(received, "closed") == [{"type": "closed", "code": 1008}], field
            assert of(received, "error")[0]["param"] == field.replace("speaker", "voice"), field


async def test_custom_voice_over_http(url: str) -> None:
    async with aiohttp.ClientSession(url) as client:
        for task_type, status in (("CustomVoice", 200), ("VoiceDesign", 400), ("Base", 400)):
            body = {"input": "Hello.", "voice": "tone_high", "response_format": "pcm", "task_type": task_type}
            async with client.post("/v1/audio/speech", json={**body, "initial_codec_chunk_frames": 0}) as response:
                assert response.status == status, task_type
                if status == 200:
                    assert await response.read() == spoken_pcm("Hello.", voice="tone_high")
                else:
                    assert (await response.json())["error"]["param"] == "task_type"


async def test_sglang_omni_s_client_gets_its_own_messages(url: str) -> None:
    session = {"voice": "tone_high", "response_format": "pcm", "stream_audio": True, "split_granularity": "sentence"}
    commit = {"type": "input.commit"}
    received = await conversation(
        url,
        {"type": "session.config", "session": session},
        {"type": "input.text", "text": "Hello world. How are"},
        {"type": "input.text", "text": " you"},
        commit,
        commit,
        {"type": "input.text", "text": "Fine."},
        {"type": "input.done"},
        last="closed",
    )
    kinds = [each["type"] for each in received if isinstance(each, dict)]
    sentence = ["audio.start", "audio.done"]
    assert kinds == [
        *("session.configured", *sentence, *sentence, "input.committed", "input.committed", *sentence, "session.done"),
        "closed",
    ]
    session_id = received[0]["session_id"]
    assert binary(received) == spoken(["Hello world.", "How are you", "Fine."], "tone_high")
    committed = of(received, "input.committed")
    assert [(each["segment_index"], each["segment_sentences"], each["total_sentences"]) for each in committed] == [
        (0, 2, 2),
        (1, 0, 2),
    ]
    assert [each["id"] for each in of(received, "audio.start")] == [f"{session_id}-{index}" for index in range(3)]
    assert of(received, "session.done") == [{"type": "session.done", "session_id": session_id, "total_sentences": 3}]
    assert received[-1]["code"] == 1000


async def test_sglang_omni_s_client_gets_whole_files_by_default_and_is_closed_after_a_rejected_config(url: str) -> None:
    config = {"type": "session.config", "session": {"voice": "default", "response_format": "wav"}}
    received = await conversation(url, config, *text("Hello."), last="closed")
    assert binary(received)[44:] == spoken_pcm("Hello.")
    assert received[-1]["code"] == 1000
    rejected = {"type": "session.config", "session": {"voice": "nobody"}}
    received = await conversation(url, rejected, *text("Hello."), last="closed")
    assert binary(received) == b""
    first = of(received, "error")[0]
    assert (first["error_type"], first["param"], first["code"]) == ("BadRequestError", "voice", 400)
    assert received[-1]["code"] == 1000
