"""Prompts are those of the reference, and what a model cannot do is refused before it starts."""

from dataclasses import replace
from typing import Any

import pytest

pytest.importorskip("torch")

import numpy as np
import torch

from realtime_tts.engine.models.qwen3_tts.prompt import ClonedVoice, ReferenceSpeech, Speech
from realtime_tts.errors import InvalidConfig, NothingToSpeak, RealtimeTTSError, UnknownVoice
from tests.engine.models.qwen3_tts.make_checkpoint import HIDDEN
from tests.engine.models.qwen3_tts.tiny import GetTiny, Golden, goldens

KEPT = [golden for golden in goldens() if golden.keep_prompt]
VOICE = ClonedVoice(np.ones(HIDDEN, np.float32))
REFERENCE = ReferenceSpeech("hello", np.zeros((5, 16), np.int64))


@pytest.mark.parametrize("golden", KEPT, ids=lambda golden: f"{golden.name}-{golden.model}")
def test_a_prompt_is_what_the_reference_feeds_its_talker(tiny: GetTiny, golden: Golden) -> None:
    prompt = tiny(golden.model).prompts.build(golden.speech)
    for ours, theirs in ((prompt.embeddings, golden.array("prompt")), (prompt.trailing, golden.array("trailing"))):
        assert ours.shape == theirs.shape
        np.testing.assert_allclose(ours.numpy(), theirs, rtol=0, atol=1e-5)


def test_the_goldens_cover_every_layout() -> None:
    layouts = {(golden.model, golden.text_first, golden.voice) for golden in KEPT}
    assert {("custom_voice", False, None), ("custom_voice", True, None)} <= layouts
    assert {("base", first, voice) for first in (False, True) for voice in ("xvec", "icl")} <= layouts


def test_text_that_comes_in_pieces_gives_the_same_prompt_in_the_end(tiny: GetTiny) -> None:
    model = tiny("custom_voice")
    whole = model.prompts.build(Speech("hello the world", speaker="ryan"))
    begun = model.prompts.build(Speech("hello", speaker="ryan", text_complete=False))
    rest = model.prompts.more_text(model.tokenizer.text("hello the world")[1:], last=True)
    assert torch.equal(begun.embeddings, whole.embeddings)
    assert torch.equal(torch.cat([begun.trailing, rest]), whole.trailing)
    assert not begun.text_complete


@pytest.mark.parametrize("text", ["\nhello", " \r\n\n hello\n", "hello \t"])
def test_white_space_around_a_text_does_not_move_the_layout(tiny: GetTiny, text: str) -> None:
    prompts = tiny("custom_voice").prompts
    plain = prompts.build(Speech("hello", speaker="ryan"))
    assert torch.equal(prompts.build(Speech(text, speaker="ryan")).embeddings, plain.embeddings)


def test_the_small_model_and_a_clone_take_no_instruction(tiny: GetTiny) -> None:
    for name, speaker, voice in (("custom_voice_small", "ryan", None), ("base", None, VOICE)):
        plain = tiny(name).prompts.build(Speech("hello", speaker=speaker, voice=voice))
        told = tiny(name).prompts.build(Speech("hello", speaker=speaker, voice=voice, instruct="the user"))
        assert torch.equal(plain.embeddings, told.embeddings)


def test_a_speakers_name_and_a_language_may_be_written_in_any_case(tiny: GetTiny) -> None:
    prompts = tiny("custom_voice").prompts
    plain = prompts.build(Speech("hello", "english", "ryan")).embeddings
    assert torch.equal(prompts.build(Speech("hello", "English", "Ryan")).embeddings, plain)


@pytest.mark.parametrize(
    ("model", "speech", "error"),
    [
        ("custom_voice", Speech("", speaker="ryan"), NothingToSpeak),
        ("custom_voice", Speech(" \n\ud800", speaker="ryan"), NothingToSpeak),
        ("custom_voice", Speech("hello"), UnknownVoice),
        ("custom_voice", Speech("hello", speaker="nobody"), UnknownVoice),
        ("custom_voice", Speech("hello", speaker=""), UnknownVoice),
        ("custom_voice", Speech("hello", "klingon", "ryan"), InvalidConfig),
        ("custom_voice", Speech("hello", speaker="ryan", voice=VOICE), InvalidConfig),
        ("voice_design", Speech("hello", speaker="ryan"), UnknownVoice),
        ("voice_design", Speech("hello", voice=VOICE), InvalidConfig),
        ("base", Speech("hello"), InvalidConfig),
        ("base", Speech("hello", voice=ClonedVoice(np.ones(HIDDEN + 1, np.float32))), InvalidConfig),
        ("base", Speech("hello", voice=ClonedVoice(np.full(HIDDEN, np.nan, np.float32))), InvalidConfig),
        ("base", Speech("hello", voice=replace(VOICE, reference=replace(REFERENCE, text=" "))), InvalidConfig),
    ],
)
def test_what_a_model_cannot_do_is_refused(
    tiny: GetTiny, model: str, speech: Speech, error: type[RealtimeTTSError]
) -> None:
    with pytest.raises(error):
        tiny(model).prompts.build(speech)


@pytest.mark.parametrize(
    "codes", [np.zeros((5, 15)), np.zeros(16), np.zeros((0, 16)), np.full((5, 16), 2048), np.full((5, 16), -1)]
)
def test_codes_that_are_none_are_refused(tiny: GetTiny, codes: Any) -> None:
    voice = replace(VOICE, reference=ReferenceSpeech("hello", codes.astype(np.int64)))
    with pytest.raises(InvalidConfig):
        tiny("base").prompts.build(Speech("hello", voice=voice))


def test_text_that_is_still_to_come_cannot_go_first_nor_over_a_recording() -> None:
    with pytest.raises(ValueError, match="all of it"):
        Speech("hello", text_first=True, text_complete=False)
    with pytest.raises(ValueError, match="all of the text"):
        Speech("hello", voice=replace(VOICE, reference=REFERENCE), text_complete=False)


# -- What prompts by one voice share ----------------------------------------------------------------------------------


TEXTS = ("hello", "the world", "first the user", "user", "a longer text than any of the others, the world and hello")


def cloned(frames: int | None, transcript: str = "the hello world") -> ClonedVoice:
    codes = None if frames is None else np.random.default_rng(frames).integers(0, 2048, (frames, 16))
    return replace(VOICE, reference=None if codes is None else ReferenceSpeech(transcript, codes))


@pytest.mark.parametrize("language", [None, "english"])
@pytest.mark.parametrize("text_first", [False, True])
@pytest.mark.parametrize("frames", [None, 2, 40])
def test_what_is_shared_is_the_longest_beginning_that_no_text_changes(
    tiny: GetTiny, frames: int | None, text_first: bool, language: str | None
) -> None:
    model = tiny("base")
    built = [model.prompts.build(Speech(t, language, voice=cloned(frames), text_first=text_first)) for t in TEXTS]
    (shared,) = {prompt.shared for prompt in built}
    assert 0 < shared < min(len(prompt.embeddings) for prompt in built)
    assert all(torch.equal(prompt.embeddings[:shared], built[0].embeddings[:shared]) for prompt in built)
    transcript = 0 if frames is None else len(model.tokenizer.text("the hello world"))
    if frames == 2 and not text_first:  # the transcript fills the prompt, and all of the text trails
        assert shared == len(built[0].embeddings) - 1
    else:
        assert not torch.equal(built[0].embeddings[shared], built[1].embeddings[shared])
        assert shared == 3 + (5 if language is None else 6) + transcript


def test_a_speaker_s_prompts_share_the_instruction_and_the_tags(tiny: GetTiny) -> None:
    prompts = tiny("custom_voice").prompts
    plain, told = (prompts.build(Speech("hello", None, "ryan", how, text_first=True)) for how in (None, "the user"))
    assert plain.shared == 3 + 5
    assert told.shared == len(told.embeddings) - len(plain.embeddings) + plain.shared
