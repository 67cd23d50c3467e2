"""Prompts equal those of the reference, and unsupported requests are rejected."""

import itertools
from dataclasses import replace
from typing import Any

import pytest

pytest.importorskip("torch")

import numpy as np
import numpy.typing as npt
import torch

from realtime_tts.engine.models.qwen3_tts.prompt import ClonedVoice, ReferenceSpeech, Speech
from realtime_tts.errors import InvalidConfig, NothingToSpeak, RealtimeTTSError, UnknownVoice
from tests.engine.models.qwen3_tts.make_checkpoint import HIDDEN
from tests.engine.models.qwen3_tts.tiny import GetTiny, goldens

WITH_PROMPT = [golden for golden in goldens() if golden.keep_prompt]
VOICE = ClonedVoice(np.ones(HIDDEN, np.float32))
REFERENCE = ReferenceSpeech("hello", np.zeros((5, 16), np.int64))


def test_prompts_equal_those_of_the_reference(tiny: GetTiny) -> None:
    for golden in WITH_PROMPT:
        prompt = tiny(golden.model).prompts.build(golden.speech)
        for ours, theirs in ((prompt.embeddings, golden.array("prompt")), (prompt.trailing, golden.array("trailing"))):
            assert ours.shape == theirs.shape, golden
            np.testing.assert_allclose(ours.numpy(), theirs, rtol=0, atol=1e-5, err_msg=str(golden))


def test_the_goldens_cover_every_layout() -> None:
    layouts = {(golden.model, golden.text_first, golden.voice) for golden in WITH_PROMPT}
    assert {("custom_voice", False, None), ("custom_voice", True, None)} <= layouts
    assert {("base", first, voice) for first in (False, True) for voice in ("xvec", "icl")} <= layouts


def test_text_in_pieces_gives_the_same_prompt_as_the_whole_text(tiny: GetTiny) -> None:
    model = tiny("custom_voice")
    whole = model.prompts.build(Speech("hello the world", speaker="ryan"))
    started = model.prompts.build(Speech("hello", speaker="ryan", text_complete=False))
    rest = model.prompts.more_text(model.tokenizer.text("hello the world")[1:], last=True)
    assert torch.equal(started.embeddings, whole.embeddings)
    assert torch.equal(torch.cat([started.trailing, rest]), whole.trailing)
    assert not started.text_complete


def test_white_space_around_a_text_has_no_effect(tiny: GetTiny) -> None:
    prompts = tiny("custom_voice").prompts
    plain = prompts.build(Speech("hello", speaker="ryan"))
    for text in ("\nhello", " \r\n\n hello\n", "hello \t"):
        assert torch.equal(prompts.build(Speech(text, speaker="ryan")).embeddings, plain.embeddings)


def test_the_small_model_and_a_clone_ignore_instructions(tiny: GetTiny) -> None:
    for name, speaker, voice in (("custom_voice_small", "ryan", None), ("base", None, VOICE)):
        plain = tiny(name).prompts.build(Speech("hello", speaker=speaker, voice=voice))
        other = tiny(name).prompts.build(Speech("hello", speaker=speaker, voice=voice, instruct="the user"))
        assert torch.equal(plain.embeddings, other.embeddings)


def test_speakers_and_languages_are_case_insensitive(tiny: GetTiny) -> None:
    prompts = tiny("custom_voice").prompts
    plain = prompts.build(Speech("hello", "english", "ryan")).embeddings
    assert torch.equal(prompts.build(Speech("hello", "English", "Ryan")).embeddings, plain)


UNSUPPORTED: list[tuple[str, Speech, type[RealtimeTTSError]]] = [
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
]


def test_unsupported_requests_are_rejected(tiny: GetTiny) -> None:
    for model, speech, error in UNSUPPORTED:
        with pytest.raises(error):
            tiny(model).prompts.build(speech)


def test_invalid_reference_codes_are_rejected(tiny: GetTiny) -> None:
    invalid: list[npt.NDArray[Any]] = [
        *(np.zeros((5, 15)), np.zeros(16), np.zeros((0, 16))),
        *(np.full((5, 16), 2048), np.full((5, 16), -1)),
    ]
    for codes in invalid:
        voice = replace(VOICE, reference=ReferenceSpeech("hello", codes.astype(np.int64)))
        with pytest.raises(InvalidConfig):
            tiny("base").prompts.build(Speech("hello", voice=voice))


def test_incomplete_text_allows_neither_text_first_nor_a_reference_recording() -> None:
    with pytest.raises(ValueError, match="text_first needs all of the text"):
        Speech("hello", text_first=True, text_complete=False)
    with pytest.raises(ValueError, match="recording needs all of the text"):
        Speech("hello", voice=replace(VOICE, reference=REFERENCE), text_complete=False)


# -- Prefixes ----------------------------------------------------------------------------------------------------------


TEXTS = ("hello", "the world", "first the user", "user", "a longer text than any of the others, the world and hello")


def cloned(frames: int | None, transcript: str = "the hello world") -> ClonedVoice:
    codes = None if frames is None else np.random.default_rng(frames).integers(0, 2048, (frames, 16))
    return replace(VOICE, reference=None if codes is None else ReferenceSpeech(transcript, codes))


def test_the_prefix_is_the_longest_that_no_text_changes(tiny: GetTiny) -> None:
    model = tiny("base")
    for language, text_first, frames in itertools.product((None, "english"), (False, True), (None, 2, 40)):
        voice = cloned(frames)
        built = [model.prompts.build(Speech(text, language, voice=voice, text_first=text_first)) for text in TEXTS]
        (length,) = {prompt.prefix_length for prompt in built}
        assert 0 < length < min(len(prompt.embeddings) for prompt in built)
        assert all(torch.equal(prompt.embeddings[:length], built[0].embeddings[:length]) for prompt in built)
        transcript = 0 if frames is None else len(model.tokenizer.text("the hello world"))
        if frames == 2 and not text_first:  # the transcript fills the prompt, and all of the text trails
            assert length == len(built[0].embeddings) - 1
        else:
            assert not torch.equal(built[0].embeddings[length], built[1].embeddings[length])
            assert length == 3 + (5 if language is None else 6) + transcript


def test_the_prefix_of_a_speaker_contains_the_instruction_and_the_tags(tiny: GetTiny) -> None:
    prompts = tiny("custom_voice").prompts
    plain, instructed = (
        prompts.build(Speech("hello", None, "ryan", how, text_first=True)) for how in (None, "the user")
    )
    assert plain.prefix_length == 3 + 5
    assert instructed.prefix_length == len(instructed.embeddings) - len(plain.embeddings) + plain.prefix_length
