"""The complete model behind an engine and a server: each request sounds as it does alone, and leaves no state."""

import asyncio
import contextlib
import dataclasses
import json
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")

import numpy as np
import numpy.typing as npt
from safetensors.torch import load_file, save_file

from realtime_tts.engine.api import Cancel, FinishReason, Reference, RequestFinished, Submit, SynthesisRequest
from realtime_tts.engine.stage import Model
from realtime_tts.errors import InvalidConfig, ModelNotUsable, SynthesisTruncated, UnknownVoice
from tests.base_client import base_client
from tests.cluster.moved import speak_and_lose
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
    talker_of,
    voice_of,
    voices_of,
)
from tests.engine.models.qwen3_tts.tiny import GetTiny
from tests.fakes import ends_of, make_engine, run_to_end, until
from tests.serving import tone_server

SLOTS = 3
FREE = (SLOTS, SLOTS)
TEXTS = ("hello", "hello the world", "the world hello the world, hello", "first the user, then a longer text")
VOICES = ("vivian", "ryan", "eric", "dylan")
RECORDING = speech(1.0, seed=9)


@pytest.fixture
def custom(built: Callable[[str], Model]) -> Model:
    return built("shallow")


@pytest.fixture
def base(built: Callable[[str], Model]) -> Model:
    return built("shallow_base")


def assert_close(found: npt.NDArray[np.float32], expected: npt.NDArray[np.float32]) -> None:
    """Within the rounding of float32: a tenth of an int16 step."""
    np.testing.assert_allclose(found, expected, rtol=0.0, atol=3e-6)


def mixed(count: int, frames: int = 12) -> list[SynthesisRequest]:
    return [
        ask(n, TEXTS[n % 4], VOICES[n % 3], frames=1 + 5 * n % frames, instructions="the user" if n % 2 else None)
        for n in range(count)
    ]


def test_audio_equals_the_lone_talkers_codes_decoded_at_once(tiny: GetTiny, custom: Model) -> None:
    request = ask(1, "hello the world", "ryan", frames=30, language="en-US")
    events = speak(custom, request)
    codes = lone_codes(tiny("shallow"), request, language="english")
    assert len(codes) > 25, "more than a chunk"
    assert_close(sound(events, "r1"), decoded(codes))


def test_a_sentence_that_another_replica_continues_sounds_as_if_nothing_were_lost(custom: Model) -> None:
    moved = speak_and_lose(lambda: custom, ask(1, "hello the world", frames=30), packets=2)
    assert_close(moved.samples, sound(speak(custom, moved.request), "r1"))


def test_the_size_of_the_first_chunk_changes_no_sample(tiny: GetTiny, custom: Model) -> None:
    expected = decoded(lone_codes(tiny("shallow"), ask(1, "hello", frames=12)))
    for size in (1, 7, 25):
        request = ask(1, "hello", frames=12, initial_codec_chunk_frames=size)
        assert_close(sound(speak(custom, request), "r1"), expected)


def test_concurrent_requests_have_the_same_audio_as_alone(tiny: GetTiny, custom: Model) -> None:
    _check_come_and_go(tiny, custom, mixed(6, frames=7), cancelled={2, 4})


@pytest.mark.slow
def test_twelve_concurrent_requests_have_the_same_audio_as_alone(tiny: GetTiny, custom: Model) -> None:
    _check_come_and_go(tiny, custom, mixed(12), cancelled={2, 5, 9})


def _check_come_and_go(tiny: GetTiny, custom: Model, requests: list[SynthesisRequest], cancelled: set[int]) -> None:
    engine, events = make_engine(custom, config=QUEUE)
    for number, request in enumerate(requests):
        engine.handle(Submit(request))
        for _ in range(3):
            engine.step()
        if number - 1 in cancelled:
            engine.handle(Cancel(f"r{number - 1}"))
    run_to_end(engine)
    for number, request in enumerate(requests):
        (end,) = ends_of(events, request.request_id)
        expected = decoded(lone_codes(tiny("shallow"), request))
        found = sound(events, request.request_id)
        assert_close(found, expected[: len(found)])
        if number not in cancelled or end.reason is not FinishReason.CANCELLED:
            assert len(found) == len(expected)
            assert end.reason is FinishReason.TRUNCATED, "by its max_new_tokens"
    assert free_slots(custom) == FREE


def test_a_natural_end_is_complete(built: Callable[[str], Model]) -> None:
    # They end after 3 and 4 frames, unless another machine rounds otherwise.
    requests = [ask(seed, "hello the world", seed=seed, frames=60) for seed in (0, 2)]
    events = speak(built("shallow_ends"), *requests)
    reasons = {ends_of(events, request.request_id)[0].reason for request in requests}
    assert FinishReason.COMPLETE in reasons
    assert reasons <= {FinishReason.COMPLETE, FinishReason.TRUNCATED}


def test_only_requests_with_the_same_seed_have_the_same_audio(custom: Model) -> None:
    requests = [ask(number, "hello", seed=seed) for number, seed in enumerate((7, 7, None, None))]
    events = speak(custom, *requests)
    first, again, random_one, random_other = (sound(events, request.request_id) for request in requests)
    assert np.abs(first - again).max() < 3e-6
    assert np.abs(random_one - random_other).max() > 1e-3


def test_a_rejected_request_affects_no_other(tiny: GetTiny, custom: Model) -> None:
    good = ask(0, "hello", "ryan")
    bad = {1: ask(1, "hello", "nobody"), 2: ask(2, "hello", language="fr")}
    events = speak(custom, *bad.values(), good)
    assert isinstance(ends_of(events, "r1")[0].error, UnknownVoice)
    assert isinstance(ends_of(events, "r2")[0].error, InvalidConfig)
    assert_close(sound(events, "r0"), decoded(lone_codes(tiny("shallow"), good)))
    assert free_slots(custom) == FREE


def test_thirty_requests_with_cancels_and_errors_leave_no_state(custom: Model) -> None:
    _check_storm(custom, 30)


@pytest.mark.slow
def test_two_thousand_requests_with_cancels_and_errors_leave_no_state(custom: Model) -> None:
    _check_storm(custom, 2000)


def _check_storm(model: Model, count: int) -> None:
    """Short requests, about a third of them cancelled at some moment, and some of them invalid."""
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
    reasons = {end.reason for end in ends} - {FinishReason.COMPLETE}  # the end is drawn once in a thousand requests
    assert reasons == {FinishReason.TRUNCATED, FinishReason.CANCELLED, FinishReason.ERROR}
    assert {type(end.error) for end in ends} == {type(None), SynthesisTruncated, UnknownVoice}
    assert free_slots(model) == FREE


# -- Voices ------------------------------------------------------------------------------------------------------------


def test_a_cloned_voice_continues_its_recording_without_a_seam(tiny: GetTiny, base: Model) -> None:
    reference = Reference("key", RECORDING, 24_000, "the hello")
    requests = [ask(n, TEXTS[n], "", reference=reference, frames=6) for n in range(3)]
    too_short = dataclasses.replace(reference, samples=RECORDING[:9], key="s")
    cloned = voice_of(voices_of(talker_of(base)), requests[0]).cloned
    assert cloned.reference is not None
    events = speak(base, *requests, ask(9, "hello", "", reference=too_short))
    before = cloned.reference.codes
    for request in requests:
        codes = lone_codes(tiny("shallow_base"), request, cloned)
        expected = decoded(np.concatenate([before, codes]))[len(before) * 1920 :]
        assert_close(sound(events, request.request_id), expected)
        assert np.abs(expected[:1920] - decoded(codes)[:1920]).max() > 1e-3, "the recording affects the first frame"
    assert isinstance(ends_of(events, "r9")[0].error, InvalidConfig)
    assert free_slots(base) == FREE


def test_an_x_vector_or_an_embedding_starts_from_silence(tiny: GetTiny, base: Model) -> None:
    reference = Reference("key", RECORDING, 24_000, x_vector_only=True)
    by_recording = ask(1, "hello", "my upload", reference=reference)
    cloned = voice_of(voices_of(talker_of(base)), by_recording).cloned
    by_embedding = ask(2, "hello", "", seed=1, speaker_embedding=tuple(cloned.x_vector.tolist()))
    events = speak(base, by_recording, by_embedding)
    expected = decoded(lone_codes(tiny("shallow_base"), by_recording, cloned))
    for name in ("r1", "r2"):
        assert_close(sound(events, name), expected)


def test_an_invalid_embedding_is_rejected(base: Model) -> None:
    for embedding in ((), (1.0,), (0.0,) * 63 + (float("nan"),), (1e300,) * 64):
        events = speak(base, ask(1, "hello", "", speaker_embedding=embedding))
        assert isinstance(ends_of(events, "r1")[0].error, InvalidConfig)


def test_a_designed_voice_follows_its_instructions_and_needs_no_name(built: Callable[[str], Model]) -> None:
    model = built("voice_design")
    plain, instructed = (sound(speak(model, ask(1, "hello", "", instructions=how)), "r1") for how in (None, "the user"))
    assert len(plain)
    assert not np.array_equal(plain, instructed)


# -- Options -----------------------------------------------------------------------------------------------------------


def test_windowed_audio_is_close_to_the_exact_audio(whole: GetWhole, custom: Model) -> None:
    _check_windowed(whole, custom, context_frames=25, frames=30)


@pytest.mark.slow
def test_a_longer_window_is_close_to_the_exact_audio_too(whole: GetWhole, custom: Model) -> None:
    _check_windowed(whole, custom, context_frames=72, frames=40)


def _check_windowed(whole: GetWhole, custom: Model, *, context_frames: int, frames: int) -> None:
    request = ask(1, "hello", frames=frames)
    exact = sound(speak(custom, request), "r1")
    windowed = build(whole("shallow"), code2wav="windowed", context_frames=context_frames)
    assert windowed.chunk_plan.left_context_frames == context_frames
    close = sound(speak(windowed, request), "r1")
    assert len(exact) == len(close)
    snr_db = 10 * np.log10(np.square(exact).sum() / max(np.square(exact - close).sum(), 1e-12))
    assert snr_db > 15


def test_other_options_give_audio_too(whole: GetWhole) -> None:
    variants: list[dict[str, Any]] = [
        {"dtype": "bfloat16"},
        {"dtype": "float16"},
        {"predictor_kv": "recompute"},
        {"predictor_kv": "auto", "slots": "auto"},
        {"graphs": True, "slots": None},
        {"graphs": True, "code2wav": "windowed"},
    ]
    for options in variants:
        model = build(whole("shallow"), **options)
        assert len(sound(speak(model, ask(1, "hello", frames=3)), "r1")) == 3 * 1920, options


def test_an_invalid_option_is_named(whole: GetWhole) -> None:
    cases: list[tuple[dict[str, Any], str]] = [
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
        ({"predictor_kv": "never"}, "predictor_kv"),
        ({"code2wav": "vocos"}, "code2wav"),
        ({"context_frames": 0}, "context_frames"),
        ({"threads": 0}, "threads"),
        ({"max_tokens": 5}, "no option max_tokens"),
    ]
    for options, words in cases:
        with pytest.raises(ModelNotUsable, match=words):
            build(whole("shallow"), **options)


@pytest.fixture
def copy(whole: GetWhole, tmp_path: Path) -> Path:
    """A copy of a complete directory, to be changed."""
    shutil.copytree(whole("shallow"), tmp_path / "copy")
    return tmp_path / "copy"


def test_a_directory_without_one_of_its_files_is_rejected_with_its_name(copy: Path) -> None:
    files = [
        *("config.json", "generation_config.json", "vocab.json", "merges.txt", "model.safetensors"),
        *("speech_tokenizer/config.json", "speech_tokenizer/model.safetensors"),
    ]
    for file in files:
        content = (copy / file).read_bytes()
        (copy / file).unlink()
        with pytest.raises(ModelNotUsable, match=file.rpartition("/")[2]):
            build(copy)
        (copy / file).write_bytes(content)


def test_an_invalid_generation_config_is_rejected(copy: Path) -> None:
    path = copy / "generation_config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"top_p": 7}))
    with pytest.raises(ModelNotUsable, match="top_p"):
        build(copy)


def test_an_unknown_tensor_is_rejected(copy: Path) -> None:
    path = copy / "speech_tokenizer" / "model.safetensors"
    state = load_file(path)
    save_file(state | {"decoder.more": state["decoder.pre_conv.conv.bias"].clone()}, path)
    with pytest.raises(ModelNotUsable, match="more"):
        build(copy)


def test_a_codec_with_fewer_codes_than_the_talker_is_rejected(copy: Path) -> None:
    path = copy / "speech_tokenizer" / "config.json"
    config = json.loads(path.read_text())
    config["decoder_config"]["codebook_size"] = config["encoder_config"]["codebook_size"] = 64
    path.write_text(json.dumps(config))
    with pytest.raises(ModelNotUsable, match="64 codes"):
        build(copy)


# -- Over a WebSocket --------------------------------------------------------------------------------------------------


STREAM = {"voice": "ryan", "response_format": "pcm", "stream_audio": True, "language": "English"}


async def _audio(url: str, text: str, **config: Any) -> bytes:
    async with base_client(url, **STREAM, **config) as client:
        return b"".join((await client.speak(text)).audio)


async def test_over_a_websocket_the_same_seed_and_chunk_give_the_same_bytes(custom: Model) -> None:
    async with tone_server(custom, config=QUEUE) as (url, _server), asyncio.timeout(60):
        one_chunk = {"max_new_tokens": 7, "initial_codec_chunk_frames": 6}
        first, again, other = [await _audio(url, "Hello the world.", seed=seed, **one_chunk) for seed in (5, 5, 6)]
    assert len(first) == 6 * 1920 * 2
    assert first == again
    assert first != other
    assert free_slots(custom) == FREE


@pytest.mark.slow
async def test_the_size_of_the_first_chunk_changes_no_sample_by_more_than_rounding(custom: Model) -> None:
    """Sums of floats in another order differ in their last bits, so one sample in a few thousand rounds differently."""
    text = "Hello the world. The second one."
    async with tone_server(custom, config=QUEUE) as (url, _server), asyncio.timeout(60):
        streams = [
            await _audio(url, text, seed=5, max_new_tokens=31, initial_codec_chunk_frames=frames)
            for frames in (None, 1, 7, 25)
        ]
    waves = [np.frombuffer(each, "<i2").astype(np.int32) for each in streams]
    assert len(waves[0]) == 2 * 30 * 1920
    for wave in waves[1:]:
        assert np.abs(wave - waves[0]).max() <= 1
        assert np.mean(wave != waves[0]) < 0.01


async def test_listeners_that_leave_change_no_sample_of_the_others(custom: Model) -> None:
    config: dict[str, Any] = {"max_new_tokens": 7, "initial_codec_chunk_frames": 6}
    async with tone_server(custom, config=QUEUE) as (url, _server), asyncio.timeout(60):
        alone = [await _audio(url, "Hello the world.", seed=seed, **config) for seed in range(3)]

        async def leaves(seed: int) -> None:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(0.05):
                    await _audio(url, TEXTS[3], seed=seed)

        stays = [_audio(url, "Hello the world.", seed=seed, **config) for seed in range(3)]
        results = await asyncio.gather(*stays, *(leaves(seed) for seed in range(6)))
        await until(lambda: not custom_has_requests(custom))
    assert free_slots(custom) == FREE
    for lone, together in zip(alone, results[:3], strict=True):
        assert isinstance(together, bytes)
        difference = np.frombuffer(lone, "<i2").astype(np.int32) - np.frombuffer(together, "<i2")
        assert np.abs(difference).max() <= 1


def custom_has_requests(model: Model) -> bool:
    return bool(talker_of(model)._rows)
