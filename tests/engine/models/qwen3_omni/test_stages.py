"""The Talker's codes equal the reference's for any schedule in which the tokens arrive, and nothing is left behind."""

import pytest

pytest.importorskip("torch")

from dataclasses import dataclass, field, replace

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from realtime_tts.engine.api import Sampling, SpokenContext, SynthesisRequest
from realtime_tts.engine.models.qwen3.talker import Talker
from realtime_tts.engine.models.qwen3_omni.prefix_cache import PrefixCache
from realtime_tts.engine.models.qwen3_omni.stages import NoSpeechStage, TalkerStage
from realtime_tts.engine.stage import StageInput, StageOutput
from realtime_tts.errors import InvalidConfig, NothingToSpeak, UnknownVoice
from tests.engine.models.qwen3_omni.goldens import golden
from tests.engine.models.qwen3_omni.inputs import CONVERSATIONS
from tests.engine.models.qwen3_omni.parts import OmniParts, turns

NAMES = tuple(CONVERSATIONS)
FRAMES = 11


def context_of(parts: OmniParts, name: str) -> SpokenContext:
    rows = golden(f"{name}/rows").astype(np.float32)
    return replace(parts.chat.prompt(turns(name), spoken=True).context, rows=rows if len(rows) else None)


def request_of(parts: OmniParts, name: str, **fields: object) -> SynthesisRequest:
    """The whole answer of the goldens, or parts of it."""
    request = SynthesisRequest(
        name,
        name,
        "",
        "ethan",
        sampling=Sampling(max_new_tokens=FRAMES + 1),
        ids=tuple(golden(f"{name}/tokens").tolist()[:-1]),
        context=context_of(parts, name),
    )
    return replace(request, **fields)  # type: ignore[arg-type]


@dataclass(slots=True)
class Speaking:
    """Requests in a stage, with their codes so far."""

    stage: TalkerStage
    codes: dict[str, list[np.ndarray]] = field(default_factory=dict)
    outputs: dict[str, list[StageOutput]] = field(default_factory=dict)

    def run(self, *requests: SynthesisRequest) -> None:
        ready = [each for each in requests if not self.finished(each.request_id)]
        if not ready:
            return
        for request, output in zip(ready, self.stage.run([StageInput(each) for each in ready]), strict=True):
            self.codes.setdefault(request.request_id, []).append(np.asarray(output.values))
            self.outputs.setdefault(request.request_id, []).append(output)

    def finished(self, name: str) -> bool:
        outputs = self.outputs.get(name)
        return bool(outputs and outputs[-1].finished)

    def found(self, name: str) -> np.ndarray:
        return np.concatenate(self.codes[name])


def check(parts: OmniParts, talker: Talker, names: tuple[str, ...], prefixes: PrefixCache | None = None) -> None:
    speaking = Speaking(parts.stage(talker, prefixes))
    requests = [request_of(parts, name) for name in names]
    while not all(speaking.finished(name) for name in names):
        speaking.run(*requests)
    for name in names:
        np.testing.assert_array_equal(speaking.found(name), golden(f"{name}/codes"), err_msg=name)
        speaking.stage.release(name)
    assert talker.free_slots == 5


def test_answers_together_equal_the_reference(omni_parts: OmniParts) -> None:
    check(omni_parts, omni_parts.talker(), NAMES)


@pytest.mark.slow
def test_each_answer_alone_equals_the_reference(omni_parts: OmniParts) -> None:
    for name in NAMES:
        check(omni_parts, omni_parts.talker(), (name,))


def test_captured_steps_equal_the_reference(omni_parts: OmniParts) -> None:
    check(omni_parts, omni_parts.talker(graphs=True), NAMES)


@settings(max_examples=3, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seed=st.integers(0, 2**32 - 1), chunk=st.integers(5, 64))
def test_any_schedule_of_tokens_gives_the_same_codes(omni_parts: OmniParts, seed: int, chunk: int) -> None:
    """Bursts and gaps, the context before or with the first token, other answers in the batch, the end alone."""
    random = np.random.default_rng(seed)
    talker = omni_parts.talker(prefill_chunk=chunk)
    speaking = Speaking(omni_parts.stage(talker))
    names = random.permutation(NAMES)[: random.integers(1, 4)].tolist()
    whole = {name: request_of(omni_parts, name) for name in names}
    given = {name: replace(each, ids=(), context=None, text_complete=False) for name, each in whole.items()}
    while not all(speaking.finished(name) for name in names):
        for name, full in whole.items():
            given[name] = more_of(given[name], full, random)
        speaking.run(*given.values())
    for name in names:
        np.testing.assert_array_equal(speaking.found(name), golden(f"{name}/codes"), err_msg=name)
        speaking.stage.release(name)
    assert talker.free_slots == 5


def more_of(known: SynthesisRequest, full: SynthesisRequest, random: np.random.Generator) -> SynthesisRequest:
    """The request with none, some or all of what is not known yet."""
    ids = full.ids[: len(known.ids) + random.integers(0, 4)]
    ends = len(ids) == len(full.ids) and bool(random.integers(0, 2))
    context = full.context if ids or random.integers(0, 2) else None
    return replace(known, ids=ids, context=known.context or context, text_complete=known.text_complete or ends)


def test_frame_k_needs_token_k(omni_parts: OmniParts) -> None:
    speaking = Speaking(omni_parts.stage(omni_parts.talker()))
    whole = request_of(omni_parts, "text")
    for count in range(1, 5):
        some = replace(whole, ids=whole.ids[:count], text_complete=False)
        for _ in range(4):
            speaking.run(some)
        assert len(speaking.found("text")) == count
        assert speaking.outputs["text"][-1].starved


def test_the_next_turn_reads_only_what_is_new(omni_parts: OmniParts) -> None:
    prefixes = PrefixCache(omni_parts.config.thinker_config.pads)
    talker = omni_parts.talker(prefill_chunk=4)
    check(omni_parts, talker, ("mixed",), prefixes)
    stage = omni_parts.stage(talker, prefixes)
    request = request_of(omni_parts, "mixed")
    assert request.context is not None
    more = np.array([7, 8, 9], np.int32)
    positions = request.context.positions
    assert positions is not None
    after = positions.max() + 1 + np.arange(3, dtype=np.int32)
    longer = replace(
        request.context,
        ids=np.concatenate([request.context.ids, more]),
        positions=np.concatenate([positions, after[None].repeat(3, 0)], 1),
        key="longer",
    )
    runs = 0
    while not len(np.asarray(stage.run([StageInput(replace(request, context=longer))])[0].values)):
        runs += 1
    assert runs == 3 - 1, "three new positions and nine of the answer are three chunks, the last with a frame"
    stage.release("mixed")
    assert len(prefixes) == 1, "the longer conversation replaces the one that it continues"
    check(omni_parts, talker, ("mixed", "text"), prefixes)


def test_text_without_a_conversation_is_spoken(omni_parts: OmniParts) -> None:
    stage = omni_parts.stage(omni_parts.talker())
    plain = SynthesisRequest("plain", "s", " how are you? ", "aiden", sampling=Sampling(max_new_tokens=6))
    speaking = Speaking(stage)
    while not speaking.finished("plain"):
        speaking.run(plain)
    assert speaking.found("plain").shape == (5, 16)
    assert speaking.outputs["plain"][-1].truncated


def test_requests_that_cannot_be_spoken_fail_alone(omni_parts: OmniParts) -> None:
    talker = omni_parts.talker()
    stage = omni_parts.stage(talker)
    good = request_of(omni_parts, "text")
    for bad, kind in (
        (replace(good, request_id="bad", voice="vivian"), UnknownVoice),
        (replace(good, request_id="bad", ids=()), NothingToSpeak),
    ):
        outputs = stage.run([StageInput(bad), StageInput(good)])
        assert isinstance(outputs[0].error, kind)
        assert outputs[1].error is None
        stage.release("bad")
        stage.release("text")
    assert talker.free_slots == 5


def test_a_request_without_input_only_reserves_capacity(omni_parts: OmniParts) -> None:
    talker = omni_parts.talker()
    stage = omni_parts.stage(talker)
    (output,) = stage.run([StageInput(SynthesisRequest("r", "s", "", "ethan", text_complete=False))])
    assert output.starved
    assert talker.free_slots == 5
    stage.release("r")


def test_a_release_at_any_moment_frees_the_slot(omni_parts: OmniParts) -> None:
    for runs in (0, 2, 4):
        talker = omni_parts.talker(prefill_chunk=20)
        speaking = Speaking(omni_parts.stage(talker))
        for _ in range(runs):
            speaking.run(request_of(omni_parts, "mixed"), request_of(omni_parts, "text"))
        speaking.stage.release("mixed")
        while not speaking.finished("text"):
            speaking.run(request_of(omni_parts, "text"))
        np.testing.assert_array_equal(speaking.found("text"), golden("text/codes"))
        speaking.stage.release("text")
        assert talker.free_slots == 5


def test_a_model_without_speech_refuses_to_speak() -> None:
    stage = NoSpeechStage()
    (output,) = stage.run([StageInput(SynthesisRequest("r", "s", "hello", "ethan"))])
    assert isinstance(output.error, InvalidConfig)
    stage.release("r")
