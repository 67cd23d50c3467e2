"""Stages: how requests start, step, wait for text, retry and end, each independently of the others."""

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import replace

import pytest

pytest.importorskip("torch")

import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from realtime_tts.engine.api import FinishReason, Reference, Sampling, SynthesisRequest
from realtime_tts.engine.models.qwen3.lane_stream import LaneStream
from realtime_tts.engine.models.qwen3.sampling import CodeSampling, SamplingParams, code_sampling
from realtime_tts.engine.models.qwen3.talker import SlotState
from realtime_tts.engine.models.qwen3_tts.prompt import Speech
from realtime_tts.engine.models.qwen3_tts.stages import RETRIES, TalkerStage
from realtime_tts.engine.stage import StageInput, StageOutput, host_array
from realtime_tts.errors import InvalidConfig, NothingToSpeak, TextTooLong, UnknownVoice
from tests.engine.models.qwen3_tts.make_codec import speech
from tests.engine.models.qwen3_tts.pipeline import (
    GetWhole,
    ask,
    build,
    decoded,
    free_slots,
    free_talker_slots,
    lone_codes,
    sound,
    speak,
    talker_of,
    voice_of,
    voices_of,
)
from tests.engine.models.qwen3_tts.tiny import Codes, GetTiny, Tiny, finish
from tests.fakes import ends_of

TEXT = "hello the world hello the world hello the world"
MIN_FRAMES = 7
"""The minimum of this text."""


def stage_of(tiny: Tiny, seeds: Iterator[int] | None = None, *, slots: int = 3, max_len: int = 192) -> TalkerStage:
    drawn = seeds or itertools.count(1)
    return TalkerStage(
        tiny.config,
        tiny.talker(slots=slots, max_len=max_len, prefill_chunk=16),
        tiny.prompts,
        tiny.tokenizer,
        published=CodeSampling(),
        max_new_tokens=8192,
        voices=None,
        lane_stream=LaneStream(torch.device("cpu")),
        draw_seed=lambda: next(drawn),
    )


def run(stage: TalkerStage, requests: Sequence[SynthesisRequest], runs: int = 2000) -> dict[str, list[StageOutput]]:
    """The outputs of each request, together, until it has finished or failed.

    Retries a request that is not streamed, as an engine does that has decoded nothing of it.
    """
    outputs: dict[str, list[StageOutput]] = {request.request_id: [] for request in requests}
    waiting = list(requests)
    retries: set[str] = set()
    for _ in range(runs):
        if not waiting:
            break
        inputs = [StageInput(r, retry=r.request_id in retries) for r in waiting]
        retries.clear()
        for request, output in zip(waiting, stage.run(inputs), strict=True):
            if output.can_retry and not request.streamed:
                assert not any(len(before.values) for before in outputs[request.request_id])
                retries.add(request.request_id)
                output = replace(output, finished=False, can_retry=False, values=output.values[:0])
            outputs[request.request_id].append(output)
        waiting = [r for r in waiting if not (last := outputs[r.request_id][-1]).finished and last.error is None]
    for request in requests:
        stage.release(request.request_id)
    return outputs


def codes(outputs: Sequence[StageOutput]) -> Codes:
    return np.concatenate([host_array(output.values) for output in outputs]).astype(np.int64)


@pytest.fixture(scope="module")
def early(lengths: dict[int, int]) -> list[int]:
    """Seeds with which TEXT ends before its minimum."""
    return [seed for seed, frames in lengths.items() if frames < MIN_FRAMES]


@pytest.fixture(scope="module")
def good(lengths: dict[int, int]) -> int:
    """A seed with which TEXT ends by itself."""
    return next(seed for seed, frames in lengths.items() if MIN_FRAMES <= frames < 20)


@pytest.fixture(scope="module")
def lengths(tiny: GetTiny) -> dict[int, int]:
    """The frames of TEXT by seed, up to 20."""
    model = tiny("shallow_ends")
    prompt = model.prompts.build(Speech(TEXT, None, "vivian", text_first=True))
    talker = model.talker(slots=24)
    slots = {
        talker.add_request(prompt, code_sampling(CodeSampling(), Sampling(seed=seed), seed)): seed
        for seed in range(1, 25)
    }
    while talker.state(0) is SlotState.PREFILL:
        talker.prefill(list(slots))
    return {slots[slot]: len(frames) for slot, frames in finish(talker, slots, 20).items()}


def test_a_row_gives_one_frame_per_run_after_its_prefill(tiny: GetTiny) -> None:
    outputs = run(stage_of(tiny("shallow")), [ask(1, TEXT, frames=5)])["r1"]
    counts = [len(output.values) for output in outputs]
    assert counts[0] == 0, "the prompt is longer than a chunk"
    assert counts.count(0) == len(counts) - 5
    assert counts[-5:] == [1] * 5
    assert all(host_array(output.values).shape[1:] == (16,) for output in outputs)


def test_an_invalid_request_affects_no_other(tiny: GetTiny) -> None:
    model = tiny("shallow")
    good = [ask(1, "hello", "ryan"), ask(2, "the world", "eric")]
    bad: dict[type[Exception], SynthesisRequest] = {
        NothingToSpeak: ask(10, " \n"),
        UnknownVoice: ask(11, "hi", "nobody"),
        InvalidConfig: ask(12, "hi", language="xx"),
        TextTooLong: ask(13, "q" * 200),
    }
    more = [ask(14, "hi", ""), ask(15, "hi", speaker_embedding=(0.0,) * 64), ask(16, "\ud800")]
    stage = stage_of(model)
    outputs = run(stage, [good[0], *bad.values(), *more, good[1]])
    for kind, request in bad.items():
        assert [type(output.error) for output in outputs[request.request_id]] == [kind]
    assert all(outputs[request.request_id][0].error is not None for request in more)
    for request in good:
        np.testing.assert_array_equal(codes(outputs[request.request_id]), lone_codes(model, request))
    assert free_talker_slots(stage) == 3


# -- Ends --------------------------------------------------------------------------------------------------------------


def test_speech_that_fills_its_slot_is_truncated(tiny: GetTiny) -> None:
    model = tiny("shallow")
    request = ask(1, "hello", frames=60)
    outputs = run(stage_of(model, max_len=24), [request])["r1"]
    assert outputs[-1].truncated
    made = codes(outputs)
    assert 1 < len(made) < 24
    np.testing.assert_array_equal(made, lone_codes(model, ask(1, "hello", frames=len(made))))


@pytest.mark.slow
def test_speech_without_an_end_is_truncated_at_the_maximum_of_its_text(tiny: GetTiny) -> None:
    greedy = Sampling(seed=1, temperature=0, repetition_penalty=1.0)
    request = replace(ask(1, "hi"), sampling=greedy)
    outputs = run(stage_of(tiny("shallow"), max_len=512), [request])["r1"]
    assert outputs[-1].finished
    assert outputs[-1].truncated
    assert len(codes(outputs)) == 50 + 16 * len(tiny("shallow").tokenizer.text("hi"))


def test_max_new_tokens_counts_the_end_as_one(tiny: GetTiny) -> None:
    for tokens in (2, 3, 9):
        request = replace(ask(1, "hello"), sampling=Sampling(seed=1, max_new_tokens=tokens))
        outputs = run(stage_of(tiny("shallow")), [request])["r1"]
        assert len(codes(outputs)) == tokens - 1
        assert outputs[-1].truncated


def test_a_natural_end_is_reported_without_a_frame(tiny: GetTiny, good: int) -> None:
    model = tiny("shallow_ends")
    request = ask(1, TEXT, seed=good, frames=60)
    outputs = run(stage_of(model), [request])["r1"]
    assert (outputs[-1].finished, outputs[-1].truncated, len(outputs[-1].values)) == (True, False, 0)
    np.testing.assert_array_equal(codes(outputs), lone_codes(model, request))


# -- Retries -----------------------------------------------------------------------------------------------------------


def test_an_early_end_is_reported_if_the_stage_cannot_retry(tiny: GetTiny, early: list[int], good: int) -> None:
    model = tiny("shallow_ends")
    for seeded, streamed in ((True, False), (True, True), (False, True)):
        sampling = Sampling(seed=early[0] if seeded else None, max_new_tokens=61)
        stage = stage_of(model, itertools.chain([early[0]], itertools.repeat(good)))
        outputs = run(stage, [replace(ask(1, TEXT), sampling=sampling, streamed=streamed)])["r1"]
        assert outputs[-1].finished
        assert outputs[-1].truncated
        assert outputs[-1].can_retry is not seeded, "of a streamed request, the engine decides on the retry"
        np.testing.assert_array_equal(codes(outputs), lone_codes(model, ask(1, TEXT, seed=early[0], frames=60)))


def test_a_retry_with_another_seed_repairs_an_early_end(tiny: GetTiny, early: list[int], good: int) -> None:
    model = tiny("shallow_ends")
    other = ask(2, "hello", "ryan")
    expected = lone_codes(model, ask(1, TEXT, seed=good, frames=60)), lone_codes(model, other)
    for failures in (0, RETRIES):
        request = replace(ask(1, TEXT), sampling=Sampling(max_new_tokens=61), streamed=False)
        stage = stage_of(model, iter([*early[:failures], good]))
        outputs = run(stage, [request, other])
        assert outputs["r1"][-1].finished
        assert not outputs["r1"][-1].truncated
        np.testing.assert_array_equal(codes(outputs["r1"]), expected[0])
        np.testing.assert_array_equal(codes(outputs["r2"]), expected[1])
        assert free_talker_slots(stage) == 3


def test_after_the_last_retry_the_frames_are_sent_and_truncated(tiny: GetTiny, early: list[int]) -> None:
    model = tiny("shallow_ends")
    seeds = early[: RETRIES + 1]
    assert len(seeds) == RETRIES + 1
    request = replace(ask(1, TEXT), sampling=Sampling(max_new_tokens=61), streamed=False)
    outputs = run(stage_of(model, iter(seeds)), [request])["r1"]
    assert outputs[-1].truncated
    np.testing.assert_array_equal(codes(outputs), lone_codes(model, ask(1, TEXT, seed=seeds[-1], frames=60)))


def test_a_seed_that_the_server_has_drawn_is_followed_by_the_next_one(tiny: GetTiny, early: list[int]) -> None:
    """Every replica then retries with the same seeds."""
    model = tiny("shallow_ends")
    sampling = Sampling(seed=early[0], seed_is_drawn=True, max_new_tokens=61)
    request = replace(ask(1, TEXT), sampling=sampling, streamed=True)
    stage = stage_of(model)
    for retries in range(2):
        outputs = list(stage.run([StageInput(request, retry=retries > 0)]))
        while not outputs[-1].finished:
            outputs += stage.run([StageInput(request)])
        lone = lone_codes(model, ask(1, TEXT, seed=early[0] + retries, frames=60))
        np.testing.assert_array_equal(codes(outputs), lone)
        assert retries or outputs[-1].can_retry
    stage.release("r1")


def test_streamed_speech_has_as_many_retries(tiny: GetTiny, early: list[int]) -> None:
    model = tiny("shallow_ends")
    seeds = early[: RETRIES + 1]
    request = replace(ask(1, TEXT), sampling=Sampling(max_new_tokens=61), streamed=True)
    stage = stage_of(model, iter(seeds))
    for retries, seed in enumerate(seeds):
        outputs = list(stage.run([StageInput(request, retry=retries > 0)]))
        while not outputs[-1].finished:
            outputs += stage.run([StageInput(request)])
        np.testing.assert_array_equal(codes(outputs), lone_codes(model, ask(1, TEXT, seed=seed, frames=60)))
        assert outputs[-1].can_retry == (retries < RETRIES)
    stage.release("r1")
    assert free_talker_slots(stage) == 3


def test_the_engine_retries_streamed_speech_before_it_has_decoded_a_chunk(
    tiny: GetTiny, whole: GetWhole, early: list[int], good: int
) -> None:
    model = build(whole("shallow_ends"))
    for first_chunk, seed, reason in ((20, good, FinishReason.COMPLETE), (1, early[0], FinishReason.TRUNCATED)):
        talker_of(model)._draw_seed = iter((early[0], good)).__next__
        request = replace(ask(1, TEXT), sampling=Sampling(max_new_tokens=61), initial_codec_chunk_frames=first_chunk)
        events = speak(model, request)
        expected = decoded(lone_codes(tiny("shallow_ends"), ask(1, TEXT, seed=seed, frames=60)))
        np.testing.assert_allclose(sound(events, "r1"), expected, rtol=0.0, atol=3e-6)
        assert ends_of(events, "r1")[0].reason is reason
        assert free_slots(model) == (3, 3)


def test_a_retry_uses_the_text_that_has_arrived_since(tiny: GetTiny) -> None:
    model = tiny("shallow_ends")
    beginning = TEXT[: TEXT.index(" ", 20)]
    for seed in (2, *range(100)):  # the first ends early, unless another machine rounds otherwise
        stage = stage_of(model, iter((seed, 7)))
        request = replace(ask(1, beginning), sampling=Sampling(max_new_tokens=30), text_complete=False)
        outputs = list(stage.run([StageInput(request)]))
        while not (outputs[-1].finished or outputs[-1].starved):
            outputs += stage.run([StageInput(request)])
        if outputs[-1].finished:
            break
    assert outputs[-1].can_retry, "no seed ends early"
    whole = replace(request, text=TEXT, text_complete=True)
    outputs = list(stage.run([StageInput(whole, retry=True)]))
    while not outputs[-1].finished:
        outputs += stage.run([StageInput(whole)])
    np.testing.assert_array_equal(codes(outputs), lone_codes(model, ask(1, TEXT, seed=7, frames=29)))


# -- Cloned voices -----------------------------------------------------------------------------------------------------


LONG_TRANSCRIPT = "the hello world, first the user, then the hello world again and again, and the world"


def cloning_stage(whole: GetWhole, prefill_chunk: int = 512) -> TalkerStage:
    """The Talker's stage of a complete Base model, with an empty cache of voices."""
    stage = talker_of(build(whole("shallow_base"), max_len=384))
    stage._talker._prefill_chunk = prefill_chunk
    return stage


def by_clone(number: int, text: str, transcript: str = LONG_TRANSCRIPT, **fields: object) -> SynthesisRequest:
    reference = Reference("key", speech(3.0, seed=11), 24_000, transcript)
    return replace(ask(number, text, "", reference=reference), **fields)  # type: ignore[arg-type]


def test_a_later_request_of_a_voice_prefills_its_own_text_only(tiny: GetTiny, whole: GetWhole) -> None:
    model = tiny("shallow_base")
    for prefill_chunk in (9, 512):
        stage = cloning_stage(whole, prefill_chunk)
        counts: list[tuple[int, ...]] = []
        prefill = stage._talker.prefill

        def counting_prefill(slots: Sequence[int]) -> None:
            before = [stage._talker._rows[slot].length for slot in slots]  # noqa: B023 - called within the loop
            prefill(slots)  # noqa: B023
            lengths = [stage._talker._rows[slot].length for slot in slots]  # noqa: B023
            counts.append(tuple(b - a for a, b in zip(before, lengths, strict=True)))  # noqa: B023

        stage._talker.prefill = counting_prefill  # type: ignore[method-assign]
        first, second = by_clone(1, "hello the world"), by_clone(2, "user hello")
        cloned = voice_of(voices_of(stage), first).cloned
        expected = {request.request_id: lone_codes(model, request, cloned) for request in (first, second)}
        prefix_length = model.prompts.build(Speech("hello", voice=cloned)).prefix_length
        assert prefix_length > 30
        np.testing.assert_array_equal(codes(run(stage, [first])["r1"]), expected["r1"])
        whole_prompt = sum(count for (count,) in counts)
        counts.clear()
        outputs = run(stage, [second, replace(first, request_id="r3")])
        np.testing.assert_array_equal(codes(outputs["r2"]), expected["r2"])
        np.testing.assert_array_equal(codes(outputs["r3"]), expected["r1"])
        assert [sum(column) for column in zip(*counts, strict=True)] == [whole_prompt - prefix_length] * 2
        assert free_talker_slots(stage) == 3


def test_a_prefix_is_used_for_its_own_language_and_transcript_only(tiny: GetTiny, whole: GetWhole) -> None:
    model, stage = tiny("shallow_base"), cloning_stage(whole)
    variants = [
        by_clone(1, "hello the world"),
        by_clone(2, "hello the world", language="en"),
        by_clone(3, "hello the world", transcript=LONG_TRANSCRIPT.replace("user", "text")),
    ]
    for request in variants:
        cloned = voice_of(voices_of(stage), request).cloned
        expected = lone_codes(model, request, cloned, "english" if request.language else None)
        for number in (0, 10):  # without the prefix, and with it
            name = f"{request.request_id}{number}"
            outputs = run(stage, [replace(request, request_id=name)])
            np.testing.assert_array_equal(codes(outputs[name]), expected)
    assert len(voices_of(stage).cache) == 1


def test_a_voice_that_is_not_cached_has_no_prefix_and_speaks(tiny: GetTiny, whole: GetWhole) -> None:
    stage = cloning_stage(whole)
    voices_of(stage).cache.limit_bytes = 1000
    for number in range(2):
        request = by_clone(number, "hello the world", sampling=Sampling(seed=3, max_new_tokens=7))
        cloned = voice_of(voices_of(stage), request).cloned
        expected = lone_codes(tiny("shallow_base"), request, cloned)
        np.testing.assert_array_equal(codes(run(stage, [request])[request.request_id]), expected)
    assert not len(voices_of(stage).cache)


# -- Reports of a run --------------------------------------------------------------------------------------------------


def test_each_run_reports_the_prefill_and_the_step_of_a_row(tiny: GetTiny) -> None:
    stage = stage_of(tiny("shallow"))
    outputs = run(stage, [ask(1, TEXT, frames=5), ask(2, " ")])
    reports = [(output.prefilled, output.stepped, len(output.values)) for output in outputs["r1"]]
    last_prefill = reports.index((True, True, 1))  # with the first frame
    assert last_prefill > 0
    assert reports == [(True, False, 0)] * last_prefill + [(True, True, 1)] + [(False, True, 1)] * 4
    assert [(output.prefilled, output.stepped) for output in outputs["r2"]] == [(False, False)]


def test_a_row_that_is_held_back_has_stepped_and_a_starved_one_has_not(tiny: GetTiny) -> None:
    stage = stage_of(tiny("shallow"))
    held_back = replace(ask(1, TEXT), sampling=Sampling(max_new_tokens=20), streamed=False)
    outputs = [output for output in run(stage, [held_back])["r1"] if not output.prefilled]
    assert [output.stepped for output in outputs] == [True] * len(outputs)
    assert not len(outputs[0].values)
    request = replace(ask(2, "hello the"), text_complete=False)
    waiting = list(stage.run([StageInput(request)]))
    while not waiting[-1].starved:
        waiting += stage.run([StageInput(request)])
    assert not waiting[-1].stepped
    stage.release("r2")


def test_a_release_at_any_moment_frees_the_slot(tiny: GetTiny) -> None:
    stage = stage_of(tiny("shallow"))
    for runs in range(5):
        run(stage, [ask(1, TEXT)], runs=runs)
        assert free_talker_slots(stage) == 3
    stage.release("never submitted")


# -- Sampling parameters of a request ----------------------------------------------------------------------------------


@settings(max_examples=40)
@given(
    requested=st.builds(
        Sampling,
        temperature=st.none() | st.floats(0, 5),
        top_k=st.none() | st.integers(1, 100_000),
        top_p=st.none() | st.floats(0, 1),
        repetition_penalty=st.none() | st.floats(0.1, 10),
    )
)
def test_all_parameters_that_a_session_accepts_are_valid(requested: Sampling) -> None:
    sampling = code_sampling(CodeSampling(), requested, 1)
    assert sampling.predictor.greedy == sampling.talker.greedy
    if requested.temperature is None and requested.top_k is None and requested.top_p is None:
        assert sampling.talker == SamplingParams()


def test_extreme_parameters_give_valid_codes(tiny: GetTiny) -> None:
    extremes = [
        Sampling(temperature=1e-9, top_k=1, top_p=0.0),
        Sampling(temperature=5.0, top_k=100_000, top_p=1.0, repetition_penalty=10.0),
        Sampling(temperature=0.0, top_p=1e-30, repetition_penalty=0.1),
        Sampling(top_p=0.0),
    ]
    for requested in extremes:
        request = replace(ask(1, "hello"), sampling=replace(requested, seed=2**63 - 1, max_new_tokens=5))
        made = codes(run(stage_of(tiny("shallow")), [request])["r1"])
        assert made.shape == (4, 16)
        assert 0 <= made.min() <= made.max() < 2048


# -- Text that arrives in words ----------------------------------------------------------------------------------------


def test_text_that_arrives_in_words_gives_the_codes_of_the_stream(tiny: GetTiny) -> None:
    model = tiny("shallow")
    whole = ask(1, TEXT, frames=20)
    speech = Speech(TEXT, None, whole.voice, text_first=False)
    expected = model.alone(model.prompts.build(speech), code_sampling(CodeSampling(), whole.sampling, 1), 20)
    words = TEXT.split()
    for first in (1, len(words) - 1):
        stage = stage_of(model)
        request = replace(whole, text=" ".join(words[:first]), text_complete=False)
        outputs: list[StageOutput] = []
        for known in range(first, len(words) + 1):
            request = replace(request, text=" ".join(words[:known]), text_complete=known == len(words))
            while not (outputs and (outputs[-1].finished or outputs[-1].starved)):
                outputs += stage.run([StageInput(request)])
            if outputs[-1].finished:
                break
            outputs[-1] = replace(outputs[-1], starved=False)
        assert np.array_equal(codes(outputs), expected)
        assert request.text_complete, "it waits for the rest of the text"
        stage.release(request.request_id)
        assert free_talker_slots(stage) == 3


def test_later_words_change_no_earlier_token(tiny: GetTiny) -> None:
    tokenizer = tiny("shallow").tokenizer
    text = "Hello, world! It's 3.14 — l'été, 你好 (x2) \"yes\" e.g. café... and 1,234.50 €!"
    words = text.split(" ")
    whole = tokenizer.text(text)
    for known in range(1, len(words)):
        ids = tokenizer.text(" ".join(words[:known]))
        assert whole[: len(ids)] == ids
