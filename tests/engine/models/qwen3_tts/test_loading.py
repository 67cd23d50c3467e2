"""The whole model behind an engine and a server: each request sounds as if it were alone, and leaves nothing."""

import asyncio
import contextlib
import dataclasses
import json
import random
import shutil
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")

import numpy as np
import numpy.typing as npt
from safetensors.torch import load_file, save_file

from realtime_tts.engine.api import Cancel, FinishReason, Reference, RequestFinished, Submit, SynthesisRequest
from realtime_tts.engine.models.qwen3_tts.stages import TalkerStage
from realtime_tts.engine.stage import Model
from realtime_tts.errors import InvalidConfig, ModelNotUsable, SynthesisTruncated, UnknownVoice
from tests.base_client import base_client
from tests.engine.models.qwen3_tts.make_codec import speech
from tests.engine.models.qwen3_tts.pipeline import (
    QUEUE,
    GetWhole,
    ask,
    build,
    decoded,
    free_slots,
    lone_codes,
    sound,
    speak,
)
from tests.engine.models.qwen3_tts.tiny import GetTiny
from tests.fakes import ends_of, make_engine, run_to_end, until
from tests.serving import tone_server

SLOTS = 3
FREE = (SLOTS, SLOTS)
TEXTS = ("hello", "hello the world", "the world hello the world, hello", "first the user, then a longer text")
VOICES = ("vivian", "ryan", "eric", "dylan")
RECORDING = speech(1.0, seed=9)


@pytest.fixture(scope="module")
def custom(whole: GetWhole) -> Model:
    return build(whole("custom_voice"))


@pytest.fixture(scope="module")
def base(whole: GetWhole) -> Model:
    return build(whole("base"))


def assert_close(heard: npt.NDArray[np.float32], made: npt.NDArray[np.float32]) -> None:
    """Within the rounding of float32: a tenth of an int16 step."""
    np.testing.assert_allclose(heard, made, rtol=0.0, atol=3e-6)


def mixed(count: int, frames: int = 12) -> list[SynthesisRequest]:
    return [
        ask(n, TEXTS[n % 4], VOICES[n % 3], frames=1 + 5 * n % frames, instructions="the user" if n % 2 else None)
        for n in range(count)
    ]


def test_sound_is_that_of_the_lone_talker_s_codes_decoded_at_once(tiny: GetTiny, custom: Model) -> None:
    request = ask(1, "hello the world", "ryan", frames=40, language="en-US")
    events = speak(custom, request)
    codes = lone_codes(tiny("custom_voice"), request, language="english")
    assert len(codes) > 25, "more than a chunk"
    assert_close(sound(events, "r1"), decoded(codes))


@pytest.mark.parametrize("size", [1, 2, 7, 25])
def test_the_size_of_the_first_chunk_changes_no_sample(tiny: GetTiny, custom: Model, size: int) -> None:
    request = ask(1, "hello", frames=30, initial_codec_chunk_frames=size)
    assert_close(sound(speak(custom, request), "r1"), decoded(lone_codes(tiny("custom_voice"), request)))


def test_twelve_that_come_and_go_each_sound_as_if_alone(tiny: GetTiny, custom: Model) -> None:
    requests = mixed(12)
    engine, events = make_engine(custom, config=QUEUE)
    cancelled = {2, 5, 9}
    for number, request in enumerate(requests):
        engine.handle(Submit(request))
        for _ in range(3):
            engine.step()
        if number - 1 in cancelled:
            engine.handle(Cancel(f"r{number - 1}"))
    run_to_end(engine)
    for number, request in enumerate(requests):
        (end,) = ends_of(events, request.request_id)
        made = decoded(lone_codes(tiny("custom_voice"), request))
        heard = sound(events, request.request_id)
        assert_close(heard, made[: len(heard)])
        if number not in cancelled or end.reason is not FinishReason.CANCELLED:
            assert len(heard) == len(made)
            assert end.reason is FinishReason.TRUNCATED  # its max_new_tokens
    assert free_slots(custom) == FREE


def test_an_end_of_its_own_is_complete(whole: GetWhole) -> None:
    model = build(whole("custom_voice_ends"))
    reasons = {
        ends_of(speak(model, ask(seed, "hello the world", seed=seed, frames=60)), f"r{seed}")[0].reason
        for seed in range(5)
    }
    assert FinishReason.COMPLETE in reasons
    assert reasons <= {FinishReason.COMPLETE, FinishReason.TRUNCATED}


def test_without_a_seed_no_two_are_alike_and_with_one_all_are(custom: Model) -> None:
    def said(number: int, seed: int | None) -> bytes:
        return sound(speak(custom, ask(number, "hello", seed=seed)), f"r{number}").tobytes()

    assert said(1, 7) == said(2, 7)
    assert said(3, None) != said(4, None)


def test_a_refused_request_harms_nobody(tiny: GetTiny, custom: Model) -> None:
    good = ask(0, "hello", "ryan")
    bad = {1: ask(1, "hello", "nobody"), 2: ask(2, "hello", language="fr")}
    events = speak(custom, *bad.values(), good)
    assert isinstance(ends_of(events, "r1")[0].error, UnknownVoice)
    assert isinstance(ends_of(events, "r2")[0].error, InvalidConfig)
    assert_close(sound(events, "r0"), decoded(lone_codes(tiny("custom_voice"), good)))
    assert free_slots(custom) == FREE


def _storm(model: Model, count: int) -> None:
    """Short requests, every third of them cancelled somewhere, some of them wrong; nothing is left of any."""
    chance = random.Random(1)
    engine, events = make_engine(model, config=QUEUE)
    for number in range(count):
        voice = "nobody" if chance.random() < 0.05 else chance.choice(VOICES)
        engine.handle(Submit(ask(number, chance.choice(TEXTS[:2]), voice, frames=chance.randint(1, 4))))
        for _ in range(chance.randint(0, 4)):
            engine.step()
        while engine.status().active_requests > 8:
            engine.step()
        if chance.random() < 0.3:
            engine.handle(Cancel(f"r{chance.randint(max(0, number - 8), number)}"))
    run_to_end(engine)
    ends = [event for event in events if isinstance(event, RequestFinished)]
    assert sorted(end.request_id for end in ends) == sorted(f"r{n}" for n in range(count))
    reasons = {end.reason for end in ends} - {FinishReason.COMPLETE}  # once in a thousand, the end is drawn
    assert reasons == {FinishReason.TRUNCATED, FinishReason.CANCELLED, FinishReason.ERROR}
    assert {type(end.error) for end in ends} == {type(None), SynthesisTruncated, UnknownVoice}
    assert free_slots(model) == FREE
    talker = model.stages[0]
    assert isinstance(talker, TalkerStage)
    assert talker.holds == 0


def test_nothing_is_left_of_a_hundred_requests(custom: Model) -> None:
    _storm(custom, 100)


@pytest.mark.model
def test_nothing_is_left_of_two_thousand_requests(custom: Model) -> None:
    _storm(custom, 2000)


# -- Voices -----------------------------------------------------------------------------------------------------------


def test_a_clone_goes_on_from_its_recording_without_a_seam(tiny: GetTiny, base: Model) -> None:
    talker = base.stages[0]
    assert isinstance(talker, TalkerStage)
    assert talker.voices is not None
    reference = Reference("key", RECORDING, 24_000, "the hello")
    requests = [ask(n, TEXTS[n], "", reference=reference, frames=9) for n in range(4)]
    cloned = talker.voices.voice(requests[0]).cloned
    assert cloned.reference is not None
    events = speak(
        base, *requests, ask(9, "hello", "", reference=dataclasses.replace(reference, samples=RECORDING[:9], key="s"))
    )
    before = cloned.reference.codes
    for request in requests:
        codes = lone_codes(tiny("base"), request, cloned)
        made = decoded(np.concatenate([before, codes]))[len(before) * 1920 :]
        assert_close(sound(events, request.request_id), made)
        assert np.abs(made[:1920] - decoded(codes)[:1920]).max() > 1e-3, "the recording can be heard in it"
    assert isinstance(ends_of(events, "r9")[0].error, InvalidConfig)
    assert free_slots(base) == FREE
    assert talker.holds == 0


def test_an_x_vector_or_an_embedding_begins_from_silence(tiny: GetTiny, base: Model) -> None:
    talker = base.stages[0]
    assert isinstance(talker, TalkerStage)
    assert talker.voices is not None
    reference = Reference("key", RECORDING, 24_000, x_vector_only=True)
    by_recording = ask(1, "hello", "my upload", reference=reference)
    cloned = talker.voices.voice(by_recording).cloned
    by_numbers = ask(2, "hello", "", seed=1, speaker_embedding=tuple(cloned.x_vector.tolist()))
    events = speak(base, by_recording, by_numbers)
    made = decoded(lone_codes(tiny("base"), by_recording, cloned))
    for name in ("r1", "r2"):
        assert_close(sound(events, name), made)


@pytest.mark.parametrize("embedding", [(), (1.0,), (0.0,) * 63 + (float("nan"),), (1e300,) * 64])
def test_an_embedding_that_is_none_is_refused(base: Model, embedding: tuple[float, ...]) -> None:
    events = speak(base, ask(1, "hello", "", speaker_embedding=embedding))
    assert isinstance(ends_of(events, "r1")[0].error, InvalidConfig)


def test_a_designed_voice_needs_no_name(whole: GetWhole) -> None:
    model = build(whole("voice_design"))
    plain, told = (sound(speak(model, ask(1, "hello", "", instructions=how)), "r1") for how in (None, "the user"))
    assert len(plain)
    assert not np.array_equal(plain, told)


# -- What may be set --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("context", [25, 72])
def test_windows_are_near_the_exact_sound(whole: GetWhole, custom: Model, context: int) -> None:
    windowed = build(whole("custom_voice"), code2wav="windowed", context_frames=context)
    assert windowed.chunk_plan.left_context_frames == context
    request = ask(1, "hello", frames=40)
    exact, near = sound(speak(custom, request), "r1"), sound(speak(windowed, request), "r1")
    assert len(exact) == len(near)
    snr_db = 10 * np.log10(np.square(exact).sum() / max(np.square(exact - near).sum(), 1e-12))
    assert snr_db > 15


@pytest.mark.parametrize(
    "options",
    [
        {"dtype": "bfloat16"},
        {"dtype": "float16"},
        {"recall": "repeat"},
        {"graphs": True},
        {"graphs": True, "code2wav": "windowed"},
        {"slots": "auto"},
        {"slots": None},
    ],
)
def test_other_settings_speak_too(whole: GetWhole, options: dict[str, Any]) -> None:
    model = build(whole("custom_voice"), **options)
    assert len(sound(speak(model, ask(1, "hello")), "r1")) == 6 * 1920


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"dtype": "float8"}, "dtype"),
        ({"graphs": "perhaps"}, "graphs"),
        ({"compiled": "perhaps"}, "compiled"),
        ({"compiled": True}, "torch.compile"),
        ({"device": "tpu"}, "device"),
        ({"device": "meta"}, "device"),
        ({"device": "cuda:99"}, "device"),
        ({"slots": 0}, "slots"),
        ({"slots": "many"}, "slots"),
        ({"slots": 1.5}, "slots"),
        ({"slots": True}, "slots"),
        ({"max_len": 1}, "max_len"),
        ({"max_len": 10**6}, "max_len"),
        ({"recall": "never"}, "recall"),
        ({"code2wav": "vocos"}, "code2wav"),
        ({"context_frames": 0}, "context_frames"),
        ({"threads": 0}, "threads"),
        ({"max_tokens": 5}, "no option max_tokens"),
    ],
)
def test_a_setting_that_cannot_be_is_named(whole: GetWhole, options: dict[str, Any], why: str) -> None:
    with pytest.raises(ModelNotUsable, match=why):
        build(whole("custom_voice"), **options)


def _altered(directory: Path, path: str, change: dict[str, Any]) -> None:
    file = directory / path
    file.write_text(json.dumps(json.loads(file.read_text()) | change))


@pytest.mark.parametrize(
    "file",
    [
        *("config.json", "generation_config.json", "vocab.json", "merges.txt", "model.safetensors"),
        *("speech_tokenizer/config.json", "speech_tokenizer/model.safetensors"),
    ],
)
def test_a_directory_that_lacks_a_file_is_refused_by_its_name(whole: GetWhole, tmp_path: Path, file: str) -> None:
    directory = tmp_path / "copy"
    shutil.copytree(whole("custom_voice"), directory)
    (directory / file).unlink()
    with pytest.raises(ModelNotUsable, match=file.rpartition("/")[2]):
        build(directory)


def test_a_generation_that_makes_no_sense_is_refused(whole: GetWhole, tmp_path: Path) -> None:
    directory = tmp_path / "copy"
    shutil.copytree(whole("custom_voice"), directory)
    _altered(directory, "generation_config.json", {"top_p": 7})
    with pytest.raises(ModelNotUsable, match="top_p"):
        build(directory)


def test_a_tensor_that_nobody_knows_is_refused(whole: GetWhole, tmp_path: Path) -> None:
    directory = tmp_path / "copy"
    shutil.copytree(whole("custom_voice"), directory)
    path = directory / "speech_tokenizer" / "model.safetensors"
    state = load_file(path)
    save_file(state | {"decoder.more": state["decoder.pre_conv.conv.bias"].clone()}, path)
    with pytest.raises(ModelNotUsable, match="more"):
        build(directory)


def test_a_codec_with_fewer_codes_is_refused(whole: GetWhole, tmp_path: Path) -> None:
    directory = tmp_path / "copy"
    shutil.copytree(whole("custom_voice"), directory)
    path = directory / "speech_tokenizer" / "config.json"
    config = json.loads(path.read_text())
    config["decoder_config"]["codebook_size"] = config["encoder_config"]["codebook_size"] = 64
    path.write_text(json.dumps(config))
    with pytest.raises(ModelNotUsable, match="64 codes"):
        build(directory)


# -- Over a socket ----------------------------------------------------------------------------------------------------


STREAM = {"voice": "ryan", "response_format": "pcm", "stream_audio": True, "language": "English"}


async def _heard(url: str, text: str, **config: Any) -> bytes:
    async with base_client(url, **STREAM, **config) as client:
        return b"".join((await client.speak(text)).audio)


async def test_over_a_websocket_the_same_seed_and_chunk_give_the_same_bytes(custom: Model) -> None:
    async with tone_server(custom, config=QUEUE) as (url, _server), asyncio.timeout(60):
        one_chunk = {"max_new_tokens": 13, "initial_codec_chunk_frames": 12}
        first, again, other = [await _heard(url, "Hello the world.", seed=seed, **one_chunk) for seed in (5, 5, 6)]
    assert len(first) == 12 * 1920 * 2
    assert first == again
    assert first != other
    assert free_slots(custom) == FREE


async def test_however_it_was_cut_no_sample_is_more_than_a_step_away(custom: Model) -> None:
    """Sums of floats in another order differ in their last bits, so one sample in a few thousand rounds otherwise."""
    text = "Hello the world. The second one."
    async with tone_server(custom, config=QUEUE) as (url, _server), asyncio.timeout(60):
        cuts = (None, 1, 7, 25)
        heard = [
            await _heard(url, text, seed=5, max_new_tokens=31, initial_codec_chunk_frames=frames) for frames in cuts
        ]
    waves = [np.frombuffer(each, "<i2").astype(np.int32) for each in heard]
    assert len(waves[0]) == 2 * 30 * 1920
    for wave in waves[1:]:
        assert np.abs(wave - waves[0]).max() <= 1
        assert np.mean(wave != waves[0]) < 0.01


async def test_half_of_a_server_s_listeners_leave_and_the_others_hear_what_they_would_alone(custom: Model) -> None:
    config: dict[str, Any] = {"max_new_tokens": 13, "initial_codec_chunk_frames": 12}
    async with tone_server(custom, config=QUEUE) as (url, _server), asyncio.timeout(60):
        alone = [await _heard(url, "Hello the world.", seed=seed, **config) for seed in range(3)]

        async def leaves(seed: int) -> None:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(0.05):
                    await _heard(url, TEXTS[3], seed=seed)

        several = [_heard(url, "Hello the world.", seed=seed, **config) for seed in range(3)]
        results = await asyncio.gather(*several, *(leaves(seed) for seed in range(6)))
        await until(lambda: free_slots(custom) == FREE)
    for lone, heard in zip(alone, results[:3], strict=True):
        assert isinstance(heard, bytes)
        difference = np.frombuffer(lone, "<i2").astype(np.int32) - np.frombuffer(heard, "<i2")
        assert np.abs(difference).max() <= 1
