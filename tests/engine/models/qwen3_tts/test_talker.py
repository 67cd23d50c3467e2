"""Codes are those of the reference, and each request's are the same whoever else is there."""

import pytest

pytest.importorskip("torch")

import numpy as np
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from realtime_tts.engine.models.qwen3_tts.predictor import Recall
from realtime_tts.engine.models.qwen3_tts.prompt import Prompt, Speech
from realtime_tts.engine.models.qwen3_tts.sampling import CodeSampling, Draw
from realtime_tts.engine.models.qwen3_tts.talker import State, Talker
from realtime_tts.errors import TextTooLong
from tests.engine.models.qwen3_tts.tiny import Codes, GetTiny, Golden, Tiny, finish, goldens

CASES = goldens()
GREEDY = CodeSampling(Draw(0), Draw(0))
FRAMES = 6
REQUESTS = (
    (Speech("hello", "english", "vivian"), CodeSampling(seed=1)),
    (Speech("hello the world hello the world", None, "eric", "the user"), CodeSampling(seed=2)),
    (Speech("a longer text, first of all", None, "ryan", text_first=True), GREEDY),
    (Speech("the world", "chinese", "dylan"), CodeSampling(Draw(0.7, 20, 0.8), Draw(1.2, 0, 0.9), 1.3, seed=3)),
)


@pytest.mark.parametrize("golden", CASES, ids=lambda golden: f"{golden.name}-{golden.model}")
def test_codes_are_those_of_the_reference(tiny: GetTiny, golden: Golden) -> None:
    model = tiny(golden.model)
    codes = model.alone(model.prompts.build(golden.speech), golden.sampling, golden.frames)
    np.testing.assert_array_equal(codes, golden.codes)


def test_some_of_the_goldens_end_by_themselves() -> None:
    assert sum(len(golden.codes) < golden.frames for golden in CASES) >= 3


@pytest.mark.parametrize(("recall", "graphs"), [(Recall.CACHE, False), (Recall.REPEAT, False), (Recall.CACHE, True)])
@pytest.mark.parametrize("model", sorted({golden.model for golden in CASES}))
def test_all_the_goldens_of_a_model_in_one_ragged_batch(
    tiny: GetTiny, model: str, recall: Recall, graphs: bool
) -> None:
    mine = [golden for golden in CASES if golden.model == model]
    talker = tiny(model).talker(slots=len(mine), prefill_chunk=11, recall=recall, graphs=graphs)
    slots = [talker.join(tiny(model).prompts.build(golden.speech), golden.sampling) for golden in mine]
    while waiting := [slot for slot in slots if talker.state(slot) is State.PREFILL]:
        talker.prefill(waiting)
    codes = finish(talker, slots, max(golden.frames for golden in mine))
    for slot, golden in zip(slots, mine, strict=True):
        np.testing.assert_array_equal(codes[slot][: len(golden.codes)], golden.codes)


@pytest.fixture(scope="module")
def lone(tiny: GetTiny) -> list[Codes]:
    """What each of REQUESTS gives by itself."""
    model = tiny("custom_voice")
    return [model.alone(model.prompts.build(speech), sampling, FRAMES) for speech, sampling in REQUESTS]


ACTIONS = st.lists(
    st.one_of(
        st.tuples(st.just("join"), st.integers(0, len(REQUESTS) - 1)),
        st.tuples(st.just("prefill"), st.sets(st.integers(0, 2), min_size=1)),
        st.tuples(st.just("step"), st.permutations([0, 1, 2])),
        st.tuples(st.just("cancel"), st.integers(0, 2)),
    ),
    max_size=40,
)


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(actions=ACTIONS, chunk=st.integers(1, 20), keep=st.integers(1, 3), graphs=st.booleans())
def test_requests_may_come_and_go_at_any_step_and_each_sounds_as_if_alone(
    tiny: GetTiny, lone: list[Codes], actions: list[tuple[str, object]], chunk: int, keep: int, graphs: bool
) -> None:
    model = tiny("custom_voice")
    talker = model.talker(slots=3, prefill_chunk=chunk, graphs=graphs)
    running: dict[int, tuple[int, list[Codes]]] = {}
    at_the_end = [*[("prefill", {0, 1, 2})] * 40, *[("step", [2, 0, 1])] * (3 * FRAMES)]
    for action, what in [("join", 1), *actions, *at_the_end]:
        if action == "join" and talker.free_slots and isinstance(what, int):
            speech, sampling = REQUESTS[what]
            running[talker.join(model.prompts.build(speech), sampling)] = (what, [])
        elif action == "cancel" and what in running and isinstance(what, int):
            talker.release(what)
            del running[what]
        elif action == "prefill" and isinstance(what, set):
            if waiting := [s for s in what if s in running and talker.state(s) is State.PREFILL]:
                talker.prefill(waiting)
        elif action == "step" and isinstance(what, list):
            _step_some(talker, running, what, keep)
    assert running or any(action == "cancel" for action, _ in actions)
    for request, codes in running.values():
        np.testing.assert_array_equal(codes, lone[request])


def _step_some(talker: Talker, running: dict[int, tuple[int, list[Codes]]], order: list[int], keep: int) -> None:
    ready = [s for s in order if s in running and talker.state(s) is State.READY and talker.frames(s) < FRAMES]
    if some := ready[:keep]:
        for slot, frame in zip(some, talker.step(some).codes, strict=True):
            running[slot][1].append(frame)


@pytest.mark.parametrize("chunk", [1, 2, 7, 512])
def test_how_a_prompt_is_cut_does_not_matter(tiny: GetTiny, lone: list[Codes], chunk: int) -> None:
    model = tiny("custom_voice")
    for (speech, sampling), codes in zip(REQUESTS, lone, strict=True):
        made = model.alone(model.prompts.build(speech), sampling, FRAMES, prefill_chunk=chunk)
        np.testing.assert_array_equal(made, codes)


def test_a_request_that_waits_for_text_is_starved_and_then_goes_on_as_if_it_had_not_been(tiny: GetTiny) -> None:
    model = tiny("custom_voice")
    text, sampling = "hello the world hello", CodeSampling(seed=5)
    whole = model.alone(model.prompts.build(Speech(text, speaker="ryan")), sampling, 10)
    talker = model.talker(slots=2)
    slot = talker.join(model.prompts.build(Speech("hello", speaker="ryan", text_complete=False)), sampling)
    talker.prefill([slot])
    codes, rest = [finish(talker, [slot], 10)[slot]], model.tokenizer.text(text)[1:]
    assert talker.state(slot) is State.STARVED
    assert len(codes[0]) == 1, "a frame can be had before the text after it"
    for index in range(len(rest)):
        last = index == len(rest) - 1
        talker.append_text(slot, model.prompts.more_text(rest[index : index + 1], last=last), complete=last)
        codes.append(finish(talker, [slot], 10)[slot])
        assert (talker.state(slot) is State.STARVED) != last
    np.testing.assert_array_equal(np.concatenate(codes), whole)


def test_a_slot_that_has_no_room_is_full_and_gives_what_it_has(tiny: GetTiny) -> None:
    model = tiny("custom_voice")
    prompt = model.prompts.build(REQUESTS[0][0])
    long = model.alone(prompt, GREEDY, 10)
    size = len(prompt.embeddings)
    talker = model.talker(slots=1, max_len=size + 3)
    slot = talker.join(prompt, GREEDY)
    talker.prefill([slot])
    codes = finish(talker, [slot], 10)[slot]
    assert talker.state(slot) is State.FULL
    np.testing.assert_array_equal(codes, long[:4])
    with pytest.raises(AssertionError, match="ready"):
        talker.step([slot])


def test_a_prompt_that_just_fits_gives_one_frame(tiny: GetTiny, lone: list[Codes]) -> None:
    model = tiny("custom_voice")
    prompt = model.prompts.build(REQUESTS[0][0])
    codes = model.alone(prompt, REQUESTS[0][1], FRAMES, max_len=len(prompt.embeddings))
    np.testing.assert_array_equal(codes, lone[0][:1])


def test_a_prompt_that_does_not_fit_is_refused_and_takes_no_slot(tiny: GetTiny) -> None:
    model = tiny("custom_voice")
    prompt = model.prompts.build(REQUESTS[0][0])
    talker = model.talker(slots=1, max_len=len(prompt.embeddings) - 1)
    with pytest.raises(TextTooLong):
        talker.join(prompt, GREEDY)
    assert talker.free_slots == 1


def test_what_has_ended_gives_no_more(tiny: GetTiny) -> None:
    model = tiny("custom_voice_ends")
    talker = model.talker(slots=1)
    slot = talker.join(model.prompts.build(Speech("hello", "english", "vivian")), CodeSampling(seed=1))
    talker.prefill([slot])
    finish(talker, [slot], 150)
    assert talker.state(slot) is State.ENDED
    with pytest.raises(AssertionError, match="ready"):
        talker.step([slot])


def test_the_end_is_never_among_the_first_frames(tiny: GetTiny) -> None:
    model = tiny("custom_voice_ends")
    prompt = model.prompts.build(Speech("hello", "english", "vivian"))
    lengths = [len(model.alone(prompt, CodeSampling(Draw(3.0, 50), seed=s), 3)) for s in range(12)]
    assert min(lengths) >= 2


def test_numbers_that_are_none_reach_neither_batch_mates_nor_the_next_in_the_slot(
    tiny: GetTiny, lone: list[Codes]
) -> None:
    model = tiny("custom_voice")
    speech, sampling = REQUESTS[1]
    broken = model.prompts.build(speech)
    broken = Prompt(torch.full_like(broken.embeddings, torch.nan), broken.trailing)
    talker = model.talker(slots=2)
    bad, good = talker.join(broken, CodeSampling(seed=1)), talker.join(model.prompts.build(speech), sampling)
    talker.prefill([bad, good])
    np.testing.assert_array_equal(finish(talker, [bad, good], FRAMES)[good], lone[1])
    for slot in (bad, good):
        talker.release(slot)
    # A short one in the slot where it was, and a long one that makes the batch look at all of it.
    again = {talker.join(model.prompts.build(REQUESTS[n][0]), REQUESTS[n][1]): lone[n] for n in (0, 1)}
    assert list(again) == [bad, good]
    talker.prefill(list(again))
    for slot, codes in finish(talker, again, FRAMES).items():
        np.testing.assert_array_equal(codes, again[slot])


def test_the_lowest_free_slot_is_given_first(tiny: GetTiny) -> None:
    model = tiny("custom_voice")
    talker = model.talker(slots=3)
    prompt = model.prompts.build(REQUESTS[0][0])
    assert [talker.join(prompt, GREEDY) for _ in range(3)] == [0, 1, 2]
    talker.release(2)
    talker.release(0)
    assert talker.free_slots == 2
    assert [talker.join(prompt, GREEDY) for _ in range(2)] == [0, 2]
    with pytest.raises(AssertionError, match="no slot"):
        talker.join(prompt, GREEDY)


def test_without_a_seed_no_two_requests_are_alike(tiny: GetTiny) -> None:
    model = tiny("custom_voice")
    prompt = model.prompts.build(REQUESTS[0][0])
    first, second = (model.alone(prompt, CodeSampling(), FRAMES) for _ in range(2))
    assert not np.array_equal(first, second)


@pytest.mark.parametrize(("slots", "max_len", "chunk"), [(0, 64, 8), (1, 1, 8), (1, 40_000, 8), (1, 64, 0)])
def test_a_talker_that_could_not_work_is_not_made(tiny: GetTiny, slots: int, max_len: int, chunk: int) -> None:
    with pytest.raises(ValueError, match="cannot be"):
        tiny("custom_voice").talker(slots, max_len, chunk)


def test_half_precision_runs_and_is_repeatable(tiny: GetTiny) -> None:
    model = _halved(tiny("custom_voice"))
    prompt = model.prompts.build(REQUESTS[1][0])
    assert prompt.embeddings.dtype is torch.bfloat16
    first, second = (model.alone(prompt, CodeSampling(seed=1), FRAMES) for _ in range(2))
    np.testing.assert_array_equal(first, second)


def _halved(model: Tiny) -> Tiny:
    from realtime_tts.engine.models.qwen3_tts.checkpoint import Checkpoint
    from realtime_tts.engine.models.qwen3_tts.prompt import PromptBuilder
    from realtime_tts.engine.models.qwen3_tts.talker import load_weights

    with Checkpoint(model.directory, torch.device("cpu"), torch.bfloat16) as checkpoint:
        weights = load_weights(checkpoint, model.config.talker_config)
    prompts = PromptBuilder(model.config, model.tokenizer, weights.embeddings)
    return Tiny(model.directory, model.config, weights, model.tokenizer, prompts)


# -- Prefixes ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("prefill_chunk", [4, 512])
def test_what_another_has_read_need_not_be_read_again(tiny: GetTiny, prefill_chunk: int) -> None:
    model = tiny("custom_voice")
    first, second = (
        model.prompts.build(Speech(text, None, "eric", "the user", text_first=True))
        for text in ("hello", "the world, hello the world")
    )
    assert 4 < first.shared == second.shared
    expected = model.alone(second, CodeSampling(seed=4), FRAMES)
    for length in (1, first.shared):
        talker = model.talker(prefill_chunk=prefill_chunk)
        slot = talker.join(first, GREEDY)
        while talker.state(slot) is State.PREFILL:
            talker.prefill([slot])
        prefix = talker.prefix(slot, length)
        talker.step([slot])  # what follows in that slot, or in it after a release, changes no copy
        talker.release(slot)
        slot = talker.join(second, CodeSampling(seed=4), prefix)
        other = talker.join(first, GREEDY)
        reads = {slot: 0, other: 0}
        while waiting := [s for s in reads if talker.state(s) is State.PREFILL]:
            talker.prefill(waiting)
            reads = {s: count + (s in waiting) for s, count in reads.items()}
        assert reads[slot] == -(-(len(second.embeddings) - length) // prefill_chunk)
        np.testing.assert_array_equal(finish(talker, [slot, other], FRAMES)[slot], expected)


def test_a_prefix_is_of_what_was_read_and_leaves_something_to_read(tiny: GetTiny) -> None:
    model = tiny("custom_voice")
    prompt = model.prompts.build(REQUESTS[0][0])
    talker = model.talker(prefill_chunk=4)
    slot = talker.join(prompt, GREEDY)
    talker.prefill([slot])
    with pytest.raises(AssertionError, match="has not read 5"):
        talker.prefix(slot, 5)
    whole = talker.prefix(slot, 4)
    with pytest.raises(AssertionError, match="nothing would be left"):
        talker.join(Prompt(prompt.embeddings[:4], prompt.trailing), GREEDY, whole)
