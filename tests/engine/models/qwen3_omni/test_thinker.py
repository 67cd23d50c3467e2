"""The Thinker's tokens equal the reference's, alone and together, whatever it has read before and in any pieces."""

import pytest

pytest.importorskip("torch")

from dataclasses import replace

import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from realtime_tts.engine.api import AudioPart, TextEnd, TextSampling
from realtime_tts.engine.models.qwen3_omni.thinker import NativeThinker
from realtime_tts.engine.thinking.thinker import ThinkerPrompt
from realtime_tts.errors import InvalidConfig, TextTooLong
from tests.engine.models.qwen3_omni.goldens import error, golden
from tests.engine.models.qwen3_omni.inputs import CONVERSATIONS
from tests.engine.models.qwen3_omni.parts import MAX_LEN, TOKENS, OmniParts, ids_of, write_answers

NAMES = tuple(CONVERSATIONS)


def check(parts: OmniParts, thinker: NativeThinker, names: tuple[str, ...], **options: object) -> None:
    written = write_answers(thinker, {name: parts.prompt(name) for name in names}, **options)  # type: ignore[arg-type]
    for name in names:
        assert ids_of(written[name]) == golden(f"{name}/tokens").tolist(), name
        assert written[name][-1].end is TextEnd.LENGTH
        if len(golden(f"{name}/rows")):
            assert error(written[name][0].rows, f"{name}/rows") <= 1e-4, name
        else:
            assert written[name][0].rows is None
        assert all(each.rows is None for each in written[name][1:])
    assert thinker.load().running == thinker.load().waiting == 0
    assert thinker.load().free_positions == thinker.load().positions


def test_each_answer_alone_equals_the_reference(omni_parts: OmniParts) -> None:
    for name in NAMES:
        check(omni_parts, omni_parts.thinker(slots=1), (name,))


def test_all_answers_together_equal_the_reference(omni_parts: OmniParts) -> None:
    check(omni_parts, omni_parts.thinker(), NAMES)


def test_captured_steps_equal_the_reference(omni_parts: OmniParts) -> None:
    thinker = omni_parts.thinker()
    thinker.capture(lambda _line: None)
    check(omni_parts, thinker, NAMES)


def test_more_requests_than_slots_wait_for_one(omni_parts: OmniParts) -> None:
    check(omni_parts, omni_parts.thinker(slots=2), NAMES)


@settings(max_examples=3, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    budgets=st.lists(st.none() | st.integers(1, 60), min_size=1, max_size=6),
    chunk=st.integers(3, 64),
    slots=st.integers(1, 5),
    names=st.permutations(NAMES),
)
def test_prompts_may_be_read_in_any_pieces(
    omni_parts: OmniParts, budgets: list[int | None], chunk: int, slots: int, names: list[str]
) -> None:
    thinker = omni_parts.thinker(slots=slots, prefill_chunk=chunk)
    check(omni_parts, thinker, tuple(names), budgets=budgets)
    check(omni_parts, thinker, tuple(names[::-1]), budgets=budgets)  # now with the prefixes that are kept


def test_scores_equal_the_reference(omni_parts: OmniParts) -> None:
    for name in NAMES:
        scores: list[torch.Tensor] = []

        def recorded(hidden: torch.Tensor, scores: list[torch.Tensor] = scores) -> torch.Tensor:
            scores.append(omni_parts.weights.thinker.head(hidden))
            return scores[-1]

        write_answers(omni_parts.thinker(slots=1, head=recorded), {name: omni_parts.prompt(name)})
        assert error(torch.cat(scores), f"{name}/logits") <= 1e-4, name


# -- Sampling ----------------------------------------------------------------------------------------------------------


def test_a_seed_gives_the_same_tokens_whatever_else_runs(omni_parts: OmniParts) -> None:
    drawn = TextSampling(temperature=0.9, top_k=40, top_p=0.9, repetition_penalty=1.2, seed=5, max_tokens=12)
    prompt = omni_parts.prompt("audio")
    alone = ids_of(write_answers(omni_parts.thinker(slots=1), {"audio": prompt}, drawn)["audio"])
    thinker = omni_parts.thinker()
    thinker.join("other", omni_parts.prompt("image"), TextSampling(temperature=2.0, max_tokens=40))
    thinker.join("greedy", omni_parts.prompt("text"), TextSampling(max_tokens=40))
    thinker.step()
    thinker.join("audio", prompt, drawn)
    together: list[int] = []
    while len(together) < len(alone):
        together += [token for each in thinker.step() for token in each.ids if each.request_id == "audio"]
    assert together == alone
    other = TextSampling(temperature=0.9, top_k=40, top_p=0.9, seed=6, max_tokens=12)
    assert ids_of(write_answers(omni_parts.thinker(slots=1), {"audio": prompt}, other)["audio"]) != alone


def test_a_repetition_penalty_counts_the_prompt_and_the_answer(omni_parts: OmniParts) -> None:
    prompt = omni_parts.prompt("turns")
    sampling = TextSampling(repetition_penalty=1.5, max_tokens=8)
    scores: list[torch.Tensor] = []

    def recorded(hidden: torch.Tensor) -> torch.Tensor:
        scores.append(omni_parts.weights.thinker.head(hidden))
        return scores[-1]

    found = ids_of(write_answers(omni_parts.thinker(head=recorded), {"turns": prompt}, sampling)["turns"])
    for step, token in enumerate(found):
        expected = scores[step][0].clone()
        for seen in {*prompt.ids, *found[:step]}:
            expected[seen] *= 1.5 if expected[seen] < 0 else 1 / 1.5
        assert token == int(expected.argmax()), step


def test_invalid_parameters_and_long_prompts_are_rejected(omni_parts: OmniParts) -> None:
    thinker = omni_parts.thinker(slots=1)
    with pytest.raises(InvalidConfig, match="top_p"):
        thinker.join("a", omni_parts.prompt("text"), TextSampling(temperature=1.0, top_p=2.0))
    with pytest.raises(TextTooLong, match="fewer than 192"):
        thinker.join("a", ThinkerPrompt((5,) * MAX_LEN), TextSampling())
    assert thinker.load().waiting == 0
    with pytest.raises(ValueError, match="invalid sizes"):
        omni_parts.thinker(slots=0)


# -- Ends --------------------------------------------------------------------------------------------------------------


def test_the_end_token_ends_an_answer_and_is_not_part_of_it(omni_parts: OmniParts) -> None:
    steps = 0

    def ends_at_the_fourth(hidden: torch.Tensor) -> torch.Tensor:
        nonlocal steps
        scores = omni_parts.weights.thinker.head(hidden)
        steps += 1
        scores[:, omni_parts.config.im_end_token_id] += 1000 * (steps == 4)
        return scores

    thinker = omni_parts.thinker(slots=1, head=ends_at_the_fourth)
    written = write_answers(thinker, {"text": omni_parts.prompt("text")})["text"]
    assert written[-1].end is TextEnd.STOP
    assert written[-1].ids == ()
    assert ids_of(written) == golden("text/tokens").tolist()[:3]


def test_an_answer_that_fills_its_slot_ends_there(omni_parts: OmniParts) -> None:
    prompt = omni_parts.prompt("text")
    thinker = omni_parts.thinker(slots=1, max_len=len(prompt.ids) + 4)
    written = write_answers(thinker, {"text": prompt})["text"]
    assert written[-1].end is TextEnd.LENGTH
    assert ids_of(written) == golden("text/tokens").tolist()[:5]  # the last one need not be read


def test_a_request_can_leave_at_any_moment_and_affects_no_other(omni_parts: OmniParts) -> None:
    for steps in range(6):
        thinker = omni_parts.thinker(slots=2, prefill_chunk=20)
        thinker.join("leaves", omni_parts.prompt("mixed"), TextSampling())
        thinker.join("stays", omni_parts.prompt("image"), TextSampling(max_tokens=TOKENS))
        thinker.join("waits", omni_parts.prompt("audio"), TextSampling(max_tokens=TOKENS))
        made: dict[str, list[int]] = {"leaves": [], "stays": [], "waits": []}
        for step in range(60):
            if step == steps:
                thinker.leave("leaves")
            for each in thinker.step(25):
                made[each.request_id] += each.ids
        assert made["stays"] == golden("image/tokens").tolist(), steps
        assert made["waits"] == golden("audio/tokens").tolist(), steps
        assert thinker.load().free_positions == thinker.load().positions
        thinker.leave("leaves")  # unknown by now


def test_closing_forgets_all_requests(omni_parts: OmniParts) -> None:
    thinker = omni_parts.thinker(slots=1)
    thinker.join("a", omni_parts.prompt("text"), TextSampling())
    thinker.join("b", omni_parts.prompt("text"), TextSampling())
    thinker.step()
    thinker.close()
    assert (thinker.load().running, thinker.load().waiting) == (0, 0)
    assert list(thinker.step()) == []


# -- Kept prefixes -----------------------------------------------------------------------------------------------------


def tokens_read(thinker: NativeThinker, prompt: ThinkerPrompt) -> int:
    """The tokens that are read until the first one is written."""
    thinker.join("counted", prompt, TextSampling(max_tokens=1))
    return next(step for step in range(1, 1000) if thinker.step(1))


def test_a_conversation_that_continues_reads_only_what_is_new(omni_parts: OmniParts) -> None:
    thinker, prompt = omni_parts.thinker(slots=2), omni_parts.prompt("mixed")
    assert tokens_read(thinker, prompt) == len(prompt.ids)
    answer = tuple(golden("mixed/tokens").tolist())
    longer = replace(prompt, ids=(*prompt.ids, *answer, 1, 2, 3))
    assert tokens_read(thinker, longer) == len(answer) + 3
    written = write_answers(thinker, {"mixed": prompt})["mixed"]
    assert ids_of(written) == list(answer), "one position is read again, the others are kept"


def test_the_beginning_of_a_running_conversation_is_copied(omni_parts: OmniParts) -> None:
    thinker, prompt = omni_parts.thinker(slots=2), omni_parts.prompt("image")
    thinker.join("running", prompt, TextSampling(max_tokens=100))
    thinker.step()
    assert tokens_read(thinker, replace(prompt, ids=(*prompt.ids, 7))) == 1


def test_equal_pads_of_other_audio_are_read_again(omni_parts: OmniParts) -> None:
    thinker, prompt = omni_parts.thinker(slots=1), omni_parts.prompt("audio")
    tokens_read(thinker, prompt)
    other = replace(prompt, audio=(AudioPart(prompt.audio[0].samples[::-1].copy(), "another"),))
    first_pad = prompt.ids.index(omni_parts.config.thinker_config.audio_token_id)
    assert tokens_read(thinker, other) == len(prompt.ids) - first_pad
