"""How rows come, go and end: each by itself, whatever becomes of the others."""

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import replace

import pytest

pytest.importorskip("torch")

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st

from realtime_tts.engine.api import FinishReason, Reference, Sampling, SynthesisRequest
from realtime_tts.engine.models.qwen3_tts.prompt import Speech
from realtime_tts.engine.models.qwen3_tts.sampling import CodeSampling, Draw
from realtime_tts.engine.models.qwen3_tts.stages import RETRIES, TalkerStage, Turn, code_sampling
from realtime_tts.engine.stage import StageInput, StageOutput, host_array
from realtime_tts.errors import InvalidConfig, NothingToSpeak, TextTooLong, UnknownVoice
from tests.engine.models.qwen3_tts.make_codec import speech
from tests.engine.models.qwen3_tts.pipeline import (
    GetWhole,
    ask,
    build,
    decoded,
    free_slots,
    lone_codes,
    sound,
    speak,
)
from tests.engine.models.qwen3_tts.tiny import Codes, GetTiny, Tiny
from tests.fakes import ends_of

TEXT = "hello the world hello the world hello the world"
LEAST = 7
"""Frames that this text takes at the least."""


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
        turn=Turn(torch.device("cpu")),
        draw_seed=lambda: next(drawn),
    )


def run(stage: TalkerStage, requests: Sequence[SynthesisRequest], runs: int = 2000) -> dict[str, list[StageOutput]]:
    """All that each of them gives, together, until it has finished or failed.

    What can be tried again is, where nothing is streamed: as by an engine that has not decoded anything of it.
    """
    outputs: dict[str, list[StageOutput]] = {request.request_id: [] for request in requests}
    waiting = list(requests)
    again: set[str] = set()
    for _ in range(runs):
        if not waiting:
            break
        inputs = [StageInput(r, retry=r.request_id in again) for r in waiting]
        again.clear()
        for request, output in zip(waiting, stage.run(inputs), strict=True):
            if output.can_retry and not request.streamed:
                assert not any(len(before.values) for before in outputs[request.request_id])
                again.add(request.request_id)
                output = replace(output, finished=False, can_retry=False, values=output.values[:0])
            outputs[request.request_id].append(output)
        waiting = [r for r in waiting if not (last := outputs[r.request_id][-1]).finished and last.error is None]
    for request in requests:
        stage.release(request.request_id)
    return outputs


def codes(outputs: Sequence[StageOutput]) -> Codes:
    return np.concatenate([host_array(output.values) for output in outputs]).astype(np.int64)


@pytest.fixture(scope="module")
def found(tiny: GetTiny) -> dict[int, int]:
    """Frames that TEXT takes by each seed, up to 40."""
    model = tiny("custom_voice_ends")
    return {seed: len(lone_codes(model, ask(0, TEXT, seed=seed, frames=40))) for seed in range(1, 25)}


def test_a_row_gives_a_frame_a_run_once_its_prompt_is_read(tiny: GetTiny) -> None:
    stage = stage_of(tiny("custom_voice"))
    outputs = run(stage, [ask(1, TEXT, frames=5)])["r1"]
    counts = [len(output.values) for output in outputs]
    assert counts[0] == 0  # the prompt is longer than a chunk
    assert counts.count(0) == len(counts) - 5
    assert counts[-5:] == [1] * 5
    assert all(host_array(output.values).shape[1:] == (16,) for output in outputs)


def test_a_broken_row_is_refused_alone(tiny: GetTiny) -> None:
    model = tiny("custom_voice")
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
    assert stage.free_slots == 3


def test_a_text_that_fills_its_slot_is_truncated(tiny: GetTiny) -> None:
    model = tiny("custom_voice")
    request = ask(1, "hello", frames=60)
    outputs = run(stage_of(model, max_len=40), [request])["r1"]
    assert outputs[-1].truncated
    assert 10 < len(codes(outputs)) < 40
    np.testing.assert_array_equal(codes(outputs), lone_codes(model, request)[: len(codes(outputs))])


def test_speech_that_finds_no_end_is_ended_by_its_text_s_budget(tiny: GetTiny) -> None:
    greedy = Sampling(seed=1, temperature=0, repetition_penalty=1.0)
    request = replace(ask(1, "hi"), sampling=greedy)
    outputs = run(stage_of(tiny("custom_voice"), max_len=512), [request])["r1"]
    assert outputs[-1].finished
    assert outputs[-1].truncated
    assert len(codes(outputs)) == 50 + 16 * len(tiny("custom_voice").tokenizer.text("hi"))


@pytest.mark.parametrize("tokens", [2, 3, 9])
def test_so_many_new_tokens_are_a_frame_fewer_and_truncated(tiny: GetTiny, tokens: int) -> None:
    request = replace(ask(1, "hello"), sampling=Sampling(seed=1, max_new_tokens=tokens))
    outputs = run(stage_of(tiny("custom_voice")), [request])["r1"]
    assert len(codes(outputs)) == tokens - 1
    assert [output.truncated for output in outputs][-1]


def test_a_natural_end_is_told_without_a_frame(tiny: GetTiny, found: dict[int, int]) -> None:
    model = tiny("custom_voice_ends")
    seed = next(seed for seed, frames in found.items() if LEAST <= frames < 40)
    request = ask(1, TEXT, seed=seed, frames=60)
    outputs = run(stage_of(model), [request])["r1"]
    assert (outputs[-1].finished, outputs[-1].truncated, len(outputs[-1].values)) == (True, False, 0)
    np.testing.assert_array_equal(codes(outputs), lone_codes(model, request))


@pytest.mark.parametrize(("seeded", "streamed"), [(True, False), (True, True), (False, True)])
def test_an_end_that_comes_too_early_is_told_where_it_cannot_be_mended(
    tiny: GetTiny, found: dict[int, int], seeded: bool, streamed: bool
) -> None:
    model = tiny("custom_voice_ends")
    early = next(seed for seed, frames in found.items() if frames < LEAST)
    whole = next(seed for seed, frames in found.items() if LEAST <= frames < 40)  # by which it would be mended
    wish = Sampling(seed=early if seeded else None, max_new_tokens=61)
    outputs = run(
        stage_of(model, itertools.chain([early], itertools.repeat(whole))),
        [replace(ask(1, TEXT), sampling=wish, streamed=streamed)],
    )["r1"]
    assert outputs[-1].finished
    assert outputs[-1].truncated
    assert outputs[-1].can_retry is not seeded, "of what is streamed, the engine knows whether it may"
    np.testing.assert_array_equal(codes(outputs), lone_codes(model, ask(1, TEXT, seed=early, frames=60)))


@pytest.mark.parametrize("failures", range(RETRIES + 1))
def test_an_early_end_is_mended_by_another_seed_before_a_frame_was_given(
    tiny: GetTiny, found: dict[int, int], failures: int
) -> None:
    model = tiny("custom_voice_ends")
    early = [seed for seed, frames in found.items() if frames < LEAST]
    whole = next(seed for seed, frames in found.items() if LEAST <= frames < 40)
    seeds = [*early[:failures], whole]
    request = replace(ask(1, TEXT), sampling=Sampling(max_new_tokens=61), streamed=False)
    # Another that has the slots beside it hears nothing of it.
    other = ask(2, "hello", "ryan")
    stage = stage_of(model, iter(seeds))
    outputs = run(stage, [request, other])
    assert outputs["r1"][-1].finished
    assert not outputs["r1"][-1].truncated
    np.testing.assert_array_equal(codes(outputs["r1"]), lone_codes(model, ask(1, TEXT, seed=whole, frames=60)))
    np.testing.assert_array_equal(codes(outputs["r2"]), lone_codes(model, other))
    assert stage.free_slots == 3


def test_after_the_last_try_what_there_is_is_given_and_told_as_truncated(tiny: GetTiny, found: dict[int, int]) -> None:
    model = tiny("custom_voice_ends")
    early = [seed for seed, frames in found.items() if frames < LEAST][: RETRIES + 1]
    assert len(early) == RETRIES + 1
    request = replace(ask(1, TEXT), sampling=Sampling(max_new_tokens=61), streamed=False)
    outputs = run(stage_of(model, iter(early)), [request])["r1"]
    assert outputs[-1].truncated
    np.testing.assert_array_equal(codes(outputs), lone_codes(model, ask(1, TEXT, seed=early[-1], frames=60)))


def test_streamed_speech_is_begun_anew_as_often_as_any_other(tiny: GetTiny, found: dict[int, int]) -> None:
    model = tiny("custom_voice_ends")
    early = [seed for seed, frames in found.items() if frames < LEAST][: RETRIES + 1]
    request = replace(ask(1, TEXT), sampling=Sampling(max_new_tokens=61), streamed=True)
    stage = stage_of(model, iter(early))
    given: list[StageOutput] = []
    for retries, seed in enumerate(early):
        given = list(stage.run([StageInput(request, retry=retries > 0)]))
        while not given[-1].finished:
            given += stage.run([StageInput(request)])
        np.testing.assert_array_equal(codes(given), lone_codes(model, ask(1, TEXT, seed=seed, frames=60)))
        assert given[-1].can_retry == (retries < RETRIES)
    stage.release("r1")
    assert stage.free_slots == 3


def test_the_engine_begins_streamed_speech_anew_while_nobody_can_have_heard_of_it(
    tiny: GetTiny, whole: GetWhole, found: dict[int, int]
) -> None:
    early = next(seed for seed, frames in found.items() if frames < LEAST)
    good = next(seed for seed, frames in found.items() if LEAST <= frames < 40)
    for first_chunk, seed, reason in ((20, good, FinishReason.COMPLETE), (1, early, FinishReason.TRUNCATED)):
        model = build(whole("custom_voice_ends"))
        talker = model.stage("talker")
        assert isinstance(talker, TalkerStage)
        talker._draw_seed = iter((early, good)).__next__
        wish = Sampling(max_new_tokens=61)
        request = replace(ask(1, TEXT), sampling=wish, initial_codec_chunk_frames=first_chunk)
        events = speak(model, request)
        made = decoded(lone_codes(tiny("custom_voice_ends"), ask(1, TEXT, seed=seed, frames=60)))
        np.testing.assert_allclose(sound(events, "r1"), made, rtol=0.0, atol=3e-6)
        assert ends_of(events, "r1")[0].reason is reason
        assert free_slots(model) == (3, 3)


def test_what_broke_off_before_its_text_was_there_is_begun_anew_with_all_that_has_come(tiny: GetTiny) -> None:
    model = tiny("custom_voice_ends")
    beginning = TEXT[: TEXT.index(" ", 20)]
    for seed in range(100):
        stage = stage_of(model, iter((seed, 7)))
        request = replace(ask(1, beginning), sampling=Sampling(max_new_tokens=30), text_complete=False)
        given = list(stage.run([StageInput(request)]))
        while not (given[-1].finished or given[-1].starved):
            given += stage.run([StageInput(request)])
        if given[-1].finished:
            break
    assert given[-1].can_retry, "no seed breaks off"
    whole = replace(request, text=TEXT, text_complete=True)
    given = list(stage.run([StageInput(whole, retry=True)]))
    while not given[-1].finished:
        given += stage.run([StageInput(whole)])
    np.testing.assert_array_equal(codes(given), lone_codes(model, ask(1, TEXT, seed=7, frames=29)))


# -- Voices -----------------------------------------------------------------------------------------------------------


LONG_TRANSCRIPT = "the hello world, first the user, then the hello world again and again, and the world"


def clones(whole: GetWhole, prefill_chunk: int = 512) -> TalkerStage:
    """The Talker's stage of a whole Base model, which reads so many positions of a prompt at a time."""
    talker = build(whole("base"), max_len=384).stage("talker")
    assert isinstance(talker, TalkerStage)
    talker._talker._chunk = prefill_chunk
    return talker


def by_clone(number: int, text: str, transcript: str = LONG_TRANSCRIPT, **fields: object) -> SynthesisRequest:
    reference = Reference("key", speech(3.0, seed=11), 24_000, transcript)
    return replace(ask(number, text, "", reference=reference), **fields)  # type: ignore[arg-type]


@pytest.mark.parametrize("prefill_chunk", [512, 9])
def test_the_next_by_a_voice_reads_its_own_text_alone_and_says_the_same(
    tiny: GetTiny, whole: GetWhole, prefill_chunk: int
) -> None:
    model, stage = tiny("base"), clones(whole, prefill_chunk)
    assert stage.voices is not None
    read: list[tuple[int, ...]] = []
    prefill = stage._talker.prefill

    def counted(slots: Sequence[int]) -> None:
        before = [stage._talker._rows[slot].length for slot in slots]
        prefill(slots)
        read.append(tuple(stage._talker._rows[slot].length - a for slot, a in zip(slots, before, strict=True)))

    stage._talker.prefill = counted  # type: ignore[method-assign]
    first, second = by_clone(1, "hello the world"), by_clone(2, "user hello")
    cloned = stage.voices.voice(first).cloned
    made = {request.request_id: lone_codes(model, request, cloned) for request in (first, second)}
    shared = model.prompts.build(Speech("hello", voice=cloned)).shared
    assert shared > 30
    np.testing.assert_array_equal(codes(run(stage, [first])["r1"]), made["r1"])
    whole_prompt = sum(count for (count,) in read)
    read.clear()
    outputs = run(stage, [second, replace(first, request_id="r3")])
    np.testing.assert_array_equal(codes(outputs["r2"]), made["r2"])
    np.testing.assert_array_equal(codes(outputs["r3"]), made["r1"])
    assert [sum(column) for column in zip(*read, strict=True)] == [whole_prompt - shared] * 2
    assert stage.free_slots == 3


def test_a_prefix_serves_its_own_language_and_transcript_alone(tiny: GetTiny, whole: GetWhole) -> None:
    model, stage = tiny("base"), clones(whole)
    assert stage.voices is not None
    variants = [
        by_clone(1, "hello the world"),
        by_clone(2, "hello the world", language="en"),
        by_clone(3, "hello the world", transcript=LONG_TRANSCRIPT.replace("user", "text")),
        by_clone(4, "hello the world"),
    ]
    for request in variants:
        cloned = stage.voices.voice(request).cloned
        expected = lone_codes(model, request, cloned, "english" if request.language else None)
        for number in (0, 10):  # the first time, and by what was kept then
            name = f"{request.request_id}{number}"
            outputs = run(stage, [replace(request, request_id=name)])
            np.testing.assert_array_equal(codes(outputs[name]), expected)
    assert len(stage.voices.cache) == 1


def test_a_voice_that_is_not_kept_keeps_no_prefix_and_speaks(tiny: GetTiny, whole: GetWhole) -> None:
    stage = clones(whole)
    assert stage.voices is not None
    stage.voices.cache.limit_bytes = 1000
    for number in range(2):
        request = by_clone(number, "hello the world", sampling=Sampling(seed=3, max_new_tokens=7))
        cloned = stage.voices.voice(request).cloned
        expected = lone_codes(tiny("base"), request, cloned)
        np.testing.assert_array_equal(codes(run(stage, [request])[request.request_id]), expected)
    assert not len(stage.voices.cache)


# -- What is told of a run --------------------------------------------------------------------------------------------


def test_each_run_tells_what_was_done_for_a_row(tiny: GetTiny) -> None:
    stage = stage_of(tiny("custom_voice"))
    outputs = run(stage, [ask(1, TEXT, frames=5), ask(2, " ")])
    done = [(output.prefilled, output.stepped, len(output.values)) for output in outputs["r1"]]
    reading = done.index((True, True, 1))  # the last of the prompt, and the first frame
    assert reading > 0
    assert done == [(True, False, 0)] * reading + [(True, True, 1)] + [(False, True, 1)] * 4
    assert [(output.prefilled, output.stepped) for output in outputs["r2"]] == [(False, False)]


def test_a_row_that_is_held_back_or_starved_is_told_from_one_that_steps(tiny: GetTiny) -> None:
    stage = stage_of(tiny("custom_voice"))
    held = replace(ask(1, TEXT), sampling=Sampling(max_new_tokens=20), streamed=False)
    outputs = [output for output in run(stage, [held])["r1"] if not output.prefilled]
    assert [output.stepped for output in outputs] == [True] * len(outputs)
    assert not len(outputs[0].values)
    request = replace(ask(2, "hello the"), text_complete=False)
    given = list(stage.run([StageInput(request)]))
    while not given[-1].starved:
        given += stage.run([StageInput(request)])
    assert not given[-1].stepped
    stage.release("r2")


def test_a_request_that_goes_away_at_any_moment_leaves_its_slot(tiny: GetTiny) -> None:
    stage = stage_of(tiny("custom_voice"))
    request = ask(1, TEXT)
    for runs in range(5):
        run(stage, [request], runs=runs)
        assert stage.free_slots == 3
    stage.release("never here")


wishes = st.builds(
    Sampling,
    temperature=st.none() | st.floats(0, 5),
    top_k=st.none() | st.integers(1, 100_000),
    top_p=st.none() | st.floats(0, 1),
    repetition_penalty=st.none() | st.floats(0.1, 10),
)


@given(wish=wishes)
def test_every_wish_that_a_session_lets_through_can_be_drawn_by(wish: Sampling) -> None:
    sampling = code_sampling(CodeSampling(), wish, 1)
    assert sampling.predictor.greedy == sampling.talker.greedy
    if wish.temperature is None and wish.top_k is None and wish.top_p is None:
        assert sampling.talker == Draw()


@pytest.mark.parametrize(
    "wish",
    [
        Sampling(temperature=1e-9, top_k=1, top_p=0.0),
        Sampling(temperature=5.0, top_k=100_000, top_p=1.0, repetition_penalty=10.0),
        Sampling(temperature=0.0, top_p=1e-30, repetition_penalty=0.1),
        Sampling(top_p=0.0),
    ],
)
def test_the_outermost_wishes_still_give_codes(tiny: GetTiny, wish: Sampling) -> None:
    request = replace(ask(1, "hello"), sampling=replace(wish, seed=2**63 - 1, max_new_tokens=5))
    made = codes(run(stage_of(tiny("custom_voice")), [request])["r1"])
    assert made.shape == (4, 16)
    assert 0 <= made.min() <= made.max() < 2048


def test_a_text_that_comes_in_words_is_spoken_as_the_stream_that_it_is(tiny: GetTiny) -> None:
    model = tiny("custom_voice")
    whole = ask(1, TEXT, frames=40)
    speech = Speech(TEXT, None, whole.voice, text_first=False)
    expected = model.alone(model.prompts.build(speech), code_sampling(CodeSampling(), whole.sampling, 1), 40)
    words = TEXT.split()
    for cut in (1, 3, len(words) - 1):
        stage = stage_of(model)
        request = replace(whole, text=" ".join(words[:cut]), text_complete=False)
        given: list[StageOutput] = []
        for known in range(cut, len(words) + 1):
            request = replace(request, text=" ".join(words[:known]), text_complete=known == len(words))
            while not (given and (given[-1].finished or given[-1].starved)):
                given += stage.run([StageInput(request)])
            if given[-1].finished:
                break
            given[-1] = replace(given[-1], starved=False)
        assert np.array_equal(codes(given), expected)
        assert request.text_complete, "it waits for the text, and makes nothing up"
        stage.release(request.request_id)
        assert (stage.holds, stage.free_slots) == (0, 3)


def test_words_that_follow_change_no_token_of_those_before(tiny: GetTiny) -> None:
    tokenizer = tiny("custom_voice").tokenizer
    text = "Hello, world! It's 3.14 — l'été, 你好 (x2) \"yes\" e.g. café... and 1,234.50 €!"
    words = text.split(" ")
    whole = tokenizer.text(text)
    for known in range(1, len(words)):
        ids = tokenizer.text(" ".join(words[:known]))
        assert whole[: len(ids)] == ids
