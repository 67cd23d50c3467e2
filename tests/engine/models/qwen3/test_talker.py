"""Codes equal those of the reference, and each request's codes do not depend on the other requests."""

import functools
import itertools

import pytest

pytest.importorskip("torch")

import numpy as np
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from realtime_tts.engine.models.qwen3.checkpoint import Checkpoint
from realtime_tts.engine.models.qwen3.embeddings import Prompt
from realtime_tts.engine.models.qwen3.predictor import KVMode
from realtime_tts.engine.models.qwen3.sampling import CodeSampling, SamplingParams
from realtime_tts.engine.models.qwen3.talker import SlotState, Talker
from realtime_tts.engine.models.qwen3_tts.loading import load_talker_weights
from realtime_tts.engine.models.qwen3_tts.prompt import PromptBuilder, Speech
from realtime_tts.errors import TextTooLong
from tests.engine.models.qwen3_tts.tiny import Codes, GetTiny, Tiny, finish, goldens

GOLDENS = goldens()
GREEDY = CodeSampling(SamplingParams(0), SamplingParams(0))
FRAMES = 6
REQUESTS = (
    (Speech("hello", "english", "vivian"), CodeSampling(seed=1)),
    (Speech("hello the world hello the world", None, "eric", "the user"), CodeSampling(seed=2)),
    (Speech("a longer text, first of all", None, "ryan", text_first=True), GREEDY),
    (
        Speech("the world", "chinese", "dylan"),
        CodeSampling(SamplingParams(0.7, 20, 0.8), SamplingParams(1.2, 0, 0.9), 1.3, seed=3),
    ),
)


MODELS = sorted({golden.model for golden in GOLDENS})


def test_the_first_frames_of_all_goldens_in_one_batch_equal_the_reference(tiny: GetTiny) -> None:
    for name in MODELS:
        _check_batch(tiny(name), name, KVMode.CACHE, graphs=True, frames=4)


def test_goldens_that_end_equal_the_reference(tiny: GetTiny) -> None:
    _check_batch(tiny("custom_voice_ends"), "custom_voice_ends", KVMode.CACHE, graphs=False)


@pytest.mark.slow
def test_all_goldens_equal_the_reference_in_every_mode(tiny: GetTiny) -> None:
    for name, kv_mode, graphs in itertools.product(MODELS, KVMode, (False, True)):
        _check_batch(tiny(name), name, kv_mode, graphs=graphs)


@pytest.mark.slow
def test_every_golden_alone_equals_the_reference(tiny: GetTiny) -> None:
    for golden in GOLDENS:
        model = tiny(golden.model)
        codes = model.alone(model.prompts.build(golden.speech), golden.sampling, golden.frames)
        np.testing.assert_array_equal(codes, golden.codes, err_msg=str(golden))


def test_some_of_the_goldens_end_by_themselves() -> None:
    assert sum(len(golden.codes) < golden.frames for golden in GOLDENS) >= 3


def _check_batch(model: Tiny, name: str, kv_mode: KVMode, *, graphs: bool, frames: int = 1000) -> None:
    """Checks at most `frames` of each golden of a model."""
    own = [golden for golden in GOLDENS if golden.model == name]
    talker = model.talker(slots=len(own), prefill_chunk=11, kv_mode=kv_mode, graphs=graphs)
    slots = [talker.add_request(model.prompts.build(golden.speech), golden.sampling) for golden in own]
    while waiting := [slot for slot in slots if talker.state(slot) is SlotState.PREFILL]:
        talker.prefill(waiting)
    codes = finish(talker, slots, min(frames, max(golden.frames for golden in own)))
    for slot, golden in zip(slots, own, strict=True):
        expected = golden.codes[:frames]
        np.testing.assert_array_equal(codes[slot][: len(expected)], expected, err_msg=str(golden))


# -- Other requests ----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def lone(tiny: GetTiny) -> list[Codes]:
    """The codes of each of REQUESTS alone."""
    model = tiny("shallow")
    return [model.alone(model.prompts.build(speech), sampling, FRAMES) for speech, sampling in REQUESTS]


ACTIONS = st.lists(
    st.one_of(
        st.tuples(st.just("add"), st.integers(0, len(REQUESTS) - 1)),
        st.tuples(st.just("prefill"), st.sets(st.integers(0, 2), min_size=1)),
        st.tuples(st.just("step"), st.permutations([0, 1, 2])),
        st.tuples(st.just("cancel"), st.integers(0, 2)),
    ),
    max_size=40,
)
property_of_actions = given(actions=ACTIONS, chunk=st.integers(1, 20), keep=st.integers(1, 3), graphs=st.booleans())
settings_of_actions = functools.partial(
    settings, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


@settings_of_actions(max_examples=4)
@property_of_actions
def test_requests_can_start_and_end_at_any_step(
    tiny: GetTiny, lone: list[Codes], actions: list[tuple[str, object]], chunk: int, keep: int, graphs: bool
) -> None:
    _check_actions(tiny("shallow"), lone, actions, chunk, keep, graphs)


@pytest.mark.slow
@settings_of_actions(max_examples=40)
@property_of_actions
def test_many_requests_can_start_and_end_at_any_step(
    tiny: GetTiny, lone: list[Codes], actions: list[tuple[str, object]], chunk: int, keep: int, graphs: bool
) -> None:
    _check_actions(tiny("shallow"), lone, actions, chunk, keep, graphs)


def _check_actions(
    model: Tiny, lone: list[Codes], actions: list[tuple[str, object]], chunk: int, keep: int, graphs: bool
) -> None:
    """Each request that is not cancelled has the codes that it has alone."""
    talker = model.talker(slots=3, prefill_chunk=chunk, graphs=graphs)
    running: dict[int, tuple[int, list[Codes]]] = {}
    at_the_end = [*[("prefill", {0, 1, 2})] * 40, *[("step", [2, 0, 1])] * (3 * FRAMES)]
    for action, what in [("add", 1), *actions, *at_the_end]:
        if action == "add" and talker.free_slots and isinstance(what, int):
            speech, sampling = REQUESTS[what]
            running[talker.add_request(model.prompts.build(speech), sampling)] = (what, [])
        elif action == "cancel" and what in running and isinstance(what, int):
            talker.release(what)
            del running[what]
        elif action == "prefill" and isinstance(what, set):
            if waiting := [s for s in what if s in running and talker.state(s) is SlotState.PREFILL]:
                talker.prefill(waiting)
        elif action == "step" and isinstance(what, list):
            _step_some(talker, running, what, keep)
    assert running or any(action == "cancel" for action, _ in actions)
    for request, codes in running.values():
        np.testing.assert_array_equal(codes, lone[request])


def _step_some(talker: Talker, running: dict[int, tuple[int, list[Codes]]], order: list[int], keep: int) -> None:
    ready = [s for s in order if s in running and talker.state(s) is SlotState.READY and talker.frames(s) < FRAMES]
    if some := ready[:keep]:
        for slot, frame in zip(some, talker.step(some).codes, strict=True):
            running[slot][1].append(frame)


def test_the_size_of_a_prefill_chunk_changes_no_code(tiny: GetTiny, lone: list[Codes]) -> None:
    model = tiny("shallow")
    for chunk in (2, 7):
        for (speech, sampling), codes in zip(REQUESTS[1:], lone[1:], strict=True):
            found = model.alone(model.prompts.build(speech), sampling, FRAMES, prefill_chunk=chunk)
            np.testing.assert_array_equal(found, codes)


def test_a_starved_request_continues_when_its_text_arrives(tiny: GetTiny) -> None:
    model = tiny("shallow")
    text, sampling = "hello the world hello", CodeSampling(seed=5)
    whole = model.alone(model.prompts.build(Speech(text, speaker="ryan")), sampling, 10)
    talker = model.talker(slots=2)
    slot = talker.add_request(model.prompts.build(Speech("hello", speaker="ryan", text_complete=False)), sampling)
    talker.prefill([slot])
    codes, rest = [finish(talker, [slot], 10)[slot]], model.tokenizer.text(text)[1:]
    assert talker.state(slot) is SlotState.STARVED
    assert len(codes[0]) == 1, "a frame does not need the text after it"
    for index in range(len(rest)):
        last = index == len(rest) - 1
        talker.append_text(slot, model.prompts.more_text(rest[index : index + 1], last=last), complete=last)
        codes.append(finish(talker, [slot], 10)[slot])
        assert (talker.state(slot) is SlotState.STARVED) != last
    np.testing.assert_array_equal(np.concatenate(codes), whole)


# -- Limits ------------------------------------------------------------------------------------------------------------


def test_a_full_slot_keeps_the_frames_that_fit(tiny: GetTiny) -> None:
    model = tiny("shallow")
    prompt = model.prompts.build(REQUESTS[0][0])
    long = model.alone(prompt, GREEDY, 10)
    size = len(prompt.embeddings)
    talker = model.talker(slots=1, max_len=size + 3)
    slot = talker.add_request(prompt, GREEDY)
    talker.prefill([slot])
    codes = finish(talker, [slot], 10)[slot]
    assert talker.state(slot) is SlotState.FULL
    np.testing.assert_array_equal(codes, long[:4])
    with pytest.raises(AssertionError, match="ready"):
        talker.step([slot])


def test_a_prompt_that_fills_its_slot_gives_one_frame(tiny: GetTiny, lone: list[Codes]) -> None:
    model = tiny("shallow")
    prompt = model.prompts.build(REQUESTS[0][0])
    codes = model.alone(prompt, REQUESTS[0][1], FRAMES, max_len=len(prompt.embeddings))
    np.testing.assert_array_equal(codes, lone[0][:1])


def test_a_prompt_that_does_not_fit_is_rejected_and_uses_no_slot(tiny: GetTiny) -> None:
    model = tiny("shallow")
    prompt = model.prompts.build(REQUESTS[0][0])
    talker = model.talker(slots=1, max_len=len(prompt.embeddings) - 1)
    with pytest.raises(TextTooLong):
        talker.add_request(prompt, GREEDY)
    assert talker.free_slots == 1


def test_an_ended_request_cannot_step(tiny: GetTiny) -> None:
    model = tiny("shallow_ends")
    talker = model.talker(slots=1)
    slot = talker.add_request(model.prompts.build(Speech("hello", "english", "vivian")), CodeSampling(seed=1))
    talker.prefill([slot])
    finish(talker, [slot], 150)
    assert talker.state(slot) is SlotState.ENDED
    with pytest.raises(AssertionError, match="ready"):
        talker.step([slot])


def test_the_end_is_never_among_the_first_two_frames(tiny: GetTiny) -> None:
    model = tiny("shallow_ends")
    prompt = model.prompts.build(Speech("hello", "english", "vivian"))
    talker = model.talker(slots=12)
    slots = [talker.add_request(prompt, CodeSampling(SamplingParams(3.0, 50), seed=seed)) for seed in range(12)]
    talker.prefill(slots)
    assert min(map(len, finish(talker, slots, 3).values())) >= 2


def test_nan_reaches_neither_other_rows_nor_the_next_request_in_the_slot(tiny: GetTiny, lone: list[Codes]) -> None:
    model = tiny("shallow")
    speech, sampling = REQUESTS[1]
    prompt = model.prompts.build(speech)
    broken = Prompt(torch.full_like(prompt.embeddings, torch.nan), prompt.trailing)
    talker = model.talker(slots=2)
    bad, good = (talker.add_request(broken, CodeSampling(seed=1)), talker.add_request(prompt, sampling))
    talker.prefill([bad, good])
    np.testing.assert_array_equal(finish(talker, [bad, good], FRAMES)[good], lone[1])
    for slot in (bad, good):
        talker.release(slot)
    # A short request in the slot of the broken one, and a long one that makes the batch attend to all of it.
    again = {talker.add_request(model.prompts.build(REQUESTS[n][0]), REQUESTS[n][1]): lone[n] for n in (0, 1)}
    assert list(again) == [bad, good]
    talker.prefill(list(again))
    for slot, codes in finish(talker, again, FRAMES).items():
        np.testing.assert_array_equal(codes, again[slot])


def test_the_lowest_free_slot_is_assigned_first(tiny: GetTiny) -> None:
    model = tiny("shallow")
    talker = model.talker(slots=3)
    prompt = model.prompts.build(REQUESTS[0][0])
    assert [talker.add_request(prompt, GREEDY) for _ in range(3)] == [0, 1, 2]
    talker.release(2)
    talker.release(0)
    assert talker.free_slots == 2
    assert [talker.add_request(prompt, GREEDY) for _ in range(2)] == [0, 2]
    with pytest.raises(AssertionError, match="no slot"):
        talker.add_request(prompt, GREEDY)


def test_requests_without_a_seed_differ(tiny: GetTiny) -> None:
    model = tiny("shallow")
    prompt = model.prompts.build(REQUESTS[0][0])
    first, second = (model.alone(prompt, CodeSampling(), FRAMES) for _ in range(2))
    assert not np.array_equal(first, second)


def test_invalid_sizes_are_rejected(tiny: GetTiny) -> None:
    for slots, max_len, chunk in ((0, 64, 8), (1, 1, 8), (1, 40_000, 8), (1, 64, 0)):
        with pytest.raises(ValueError, match="invalid sizes"):
            tiny("shallow").talker(slots, max_len, chunk)


def test_half_precision_is_repeatable(tiny: GetTiny) -> None:
    model = _in_half_precision(tiny("shallow"))
    prompt = model.prompts.build(REQUESTS[1][0])
    assert prompt.embeddings.dtype is torch.bfloat16
    first, second = (model.alone(prompt, CodeSampling(seed=1), FRAMES) for _ in range(2))
    np.testing.assert_array_equal(first, second)


def _in_half_precision(model: Tiny) -> Tiny:
    with Checkpoint(model.directory, torch.device("cpu"), torch.bfloat16) as checkpoint:
        weights = load_talker_weights(checkpoint, model.config.talker_config)
    prompts = PromptBuilder(model.config, model.tokenizer, weights.embeddings)
    return Tiny(model.directory, model.config, weights, model.tokenizer, prompts)


# -- Prefixes ----------------------------------------------------------------------------------------------------------


def test_a_request_with_a_prefix_has_the_same_codes_and_a_shorter_prefill(tiny: GetTiny) -> None:
    model = tiny("shallow")
    first, second = (
        model.prompts.build(Speech(text, None, "eric", "the user", text_first=True))
        for text in ("hello", "the world, hello the world")
    )
    assert 4 < first.prefix_length == second.prefix_length
    expected = model.alone(second, CodeSampling(seed=4), FRAMES)
    for length, chunk in ((1, 4), (first.prefix_length, 4), (first.prefix_length, 512)):
        talker = model.talker(prefill_chunk=chunk)
        slot = talker.add_request(first, GREEDY)
        while talker.state(slot) is SlotState.PREFILL:
            talker.prefill([slot])
        prefix = talker.copy_prefix(slot, length)
        talker.step([slot])  # later positions of the slot, and its next request, change no copy
        talker.release(slot)
        slot = talker.add_request(second, CodeSampling(seed=4), prefix)
        other = talker.add_request(first, GREEDY)
        runs = {slot: 0, other: 0}
        while waiting := [s for s in runs if talker.state(s) is SlotState.PREFILL]:
            talker.prefill(waiting)
            runs = {s: count + (s in waiting) for s, count in runs.items()}
        assert runs[slot] == -(-(len(second.embeddings) - length) // chunk)
        np.testing.assert_array_equal(finish(talker, [slot, other], FRAMES)[slot], expected)


def test_a_prefix_must_be_prefilled_and_shorter_than_the_prompt(tiny: GetTiny) -> None:
    model = tiny("shallow")
    prompt = model.prompts.build(REQUESTS[0][0])
    talker = model.talker(prefill_chunk=4)
    slot = talker.add_request(prompt, GREEDY)
    talker.prefill([slot])
    with pytest.raises(AssertionError, match="has fewer than 5"):
        talker.copy_prefix(slot, 5)
    whole = talker.copy_prefix(slot, 4)
    with pytest.raises(AssertionError, match="nothing would be left"):
        talker.add_request(Prompt(prompt.embeddings[:4], prompt.trailing), GREEDY, whole)
