"""The check of a soak client accepts what the server sends, and finds every change of order, bytes or ends."""

import json
from typing import Any

import pytest

from bench.soak_check import ConversationCheck, Fault, Refused, exact_pcm
from tests.base_client import base_client
from tests.serving import tone_server

Frame = str | bytes
TEXTS = ("Hello there.", "And more.")


def sentence(index: int, text: str, *, utterance: int = 0, context: str | None = None) -> list[Frame]:
    audio = exact_pcm(text, "tone_low", 1.0)
    named = {} if context is None else {"context_id": context}
    start: dict[str, Any] = {"type": "audio.start", "sentence_index": index, "utterance_index": utterance}
    start |= {"sentence_text": text, "format": "pcm", "sample_rate": 24_000, "frame_header": False}
    done: dict[str, Any] = {"type": "audio.done", "sentence_index": index, "total_bytes": len(audio), "error": False}
    half = len(audio) // 2
    return [
        json.dumps(start | named | {"context_number": 0}),
        *(audio[:half], audio[half:]),
        json.dumps(done | named | {"reason": "complete"}),
    ]


def session_done(sentences: int, utterance: int = 0) -> str:
    fields = {"total_sentences": sentences, "utterance_index": utterance, "reason": "complete"}
    return json.dumps({"type": "session.done", **fields})


def whole() -> list[Frame]:
    return [*sentence(0, TEXTS[0]), *sentence(1, TEXTS[1]), session_done(2)]


def checked(frames: list[Frame]) -> ConversationCheck:
    check = ConversationCheck()
    for frame in frames:
        check.take(frame)
    return check


def test_an_utterance_in_order_is_accepted() -> None:
    check = checked(whole())
    assert check.text_of(0) == "Hello there. And more."
    assert [each.reason for each in check.sentences] == ["complete", "complete"]


async def test_what_a_server_sends_is_accepted() -> None:
    check = ConversationCheck()
    async with tone_server() as (url, _server), base_client(url, response_format="pcm", stream_audio=True) as client:
        await client.send_utterance("Hello there. And more.")
        while check.take(await client.socket.recv()) != "session.done":
            pass
    assert check.text_of(0) == "Hello there. And more."


def test_every_change_is_a_fault() -> None:
    frames = whole()
    changed = {
        "a frame is missing": frames[:1] + frames[2:],
        "two frames are exchanged": [frames[0], frames[2], frames[1], *frames[3:]],
        "a byte is another": [frames[0], b"\1" + bytes(frames[1][1:]), *frames[2:]],  # type: ignore[arg-type]
        "a frame comes twice": frames[:2] + frames[1:],
        "audio comes before its sentence": [frames[1], frames[0], *frames[2:]],
        "a sentence is missing": frames[4:],
        "a sentence comes twice": frames[:4] + frames,
        "a sentence has no end": frames[:3] + frames[4:],
        "two ends": frames[:4] + frames[3:],
        "a sentence is not counted": [*frames[:-1], session_done(1)],
        "audio after the end": frames + sentence(2, TEXTS[0]),
        "an error": [json.dumps({"type": "error", "code": "internal_error", "message": "no"}), *frames],
        "a cancel inside a sentence": [*frames[:2], json.dumps({"type": "audio.cancelled"})],
    }
    missed = []
    for name, each in changed.items():
        try:
            checked(each)
        except Fault:
            continue
        missed.append(name)
    assert missed == []


def test_a_refusal_is_not_a_fault_and_an_expected_error_neither() -> None:
    with pytest.raises(Refused):
        checked([json.dumps({"type": "error", "code": "overloaded", "message": "full"})])
    check = ConversationCheck()
    check.expected_errors = 1
    error = json.dumps({"type": "error", "code": "invalid_message", "message": "no"})
    check.take(error)
    with pytest.raises(Fault):
        check.take(error)


def test_a_cancelled_sentence_may_have_the_beginning_of_its_audio_alone() -> None:
    start, first, _second, _done = sentence(0, TEXTS[0])
    assert isinstance(first, bytes)
    for audio, accepted in ((first, True), (b"", True), (first[2:], False)):
        done = {"type": "audio.done", "sentence_index": 0, "total_bytes": len(audio), "error": False}
        frames: list[Frame] = [start, audio, json.dumps(done | {"reason": "cancelled"})]
        if accepted:
            checked(frames)
        else:
            with pytest.raises(Fault):
                checked(frames)
