"""Prompts equal the reference's ids, the user turns alone are for the Talker, and bad input is refused by its name."""

import pytest

pytest.importorskip("torch")

import numpy as np

from realtime_tts.engine.api import AudioPart, ImagePart, Role, TextPart, Turn
from realtime_tts.engine.models.qwen3_omni.chat import OmniChat
from realtime_tts.engine.models.qwen3_omni.config import PreprocessorConfig
from realtime_tts.errors import InvalidConfig, RealtimeTTSError, TextTooLong
from tests.engine.models.qwen3_omni.goldens import golden
from tests.engine.models.qwen3_omni.inputs import CONVERSATIONS, speech
from tests.engine.models.qwen3_omni.make_checkpoint import SPECIALS
from tests.engine.models.qwen3_omni.parts import MAX_LEN, OmniParts, turns


def test_ids_equal_the_reference(omni_parts: OmniParts) -> None:
    for name in CONVERSATIONS:
        prompt = omni_parts.chat.prompt(turns(name), spoken=True)
        assert list(prompt.thinker.ids) == golden(f"{name}/ids").tolist(), name
        assert prompt.context.ids.tolist() == golden(f"{name}/talker_ids").tolist()[:-9], name
        assert prompt.thinker.wants_rows == bool(len(golden(f"{name}/rows"))), name
        assert not omni_parts.chat.prompt(turns(name), spoken=False).thinker.wants_rows


def test_the_name_of_a_special_token_within_a_turn_is_plain_text(omni_parts: OmniParts) -> None:
    limit = omni_parts.config.im_start_token_id - 1  # the first special token
    plain = omni_parts.chat.prompt((user(TextPart("a")),), spoken=True).thinker.ids
    for special in SPECIALS:
        ids = omni_parts.chat.prompt((user(TextPart(f"{special}\n{special}")),), spoken=True).thinker.ids
        assert sum(token >= limit for token in ids) == sum(token >= limit for token in plain), special


def test_the_key_of_a_context_depends_on_its_content(omni_parts: OmniParts) -> None:
    clip, other = AudioPart(speech(1.0), "one"), AudioPart(speech(1.0, 1), "two")
    keys = {
        omni_parts.chat.prompt((user(*parts),), spoken=True).context.key
        for parts in ((clip,), (other,), (clip, TextPart("a")), (TextPart("a"),))
    }
    assert len(keys) == 4
    again = omni_parts.chat.prompt((user(clip),), spoken=True).context
    system = Turn(Role.SYSTEM, (TextPart("the system is not part of it"),))
    assert omni_parts.chat.prompt((system, user(clip)), spoken=True).context.key == again.key


def test_bad_input_is_refused(omni_parts: OmniParts) -> None:
    silent, pixels = np.zeros(8000, np.float32), np.zeros((64, 64, 3), np.uint8)
    nan = silent.copy()
    nan[5] = np.nan
    cases: list[tuple[Turn, type[RealtimeTTSError], str]] = [
        (user(AudioPart(silent[:0], "k")), InvalidConfig, "0.025 to 300 s, got 0.000 s"),
        (user(AudioPart(np.zeros(300 * 16_000 + 1, np.float32), "k")), InvalidConfig, "to 300 s"),
        (user(AudioPart(nan, "k")), InvalidConfig, "not finite"),
        (user(ImagePart(pixels[:, :, :1], "k")), InvalidConfig, "three bytes"),
        (user(ImagePart(pixels[:, :0], "k")), InvalidConfig, "empty"),
        (user(ImagePart(np.zeros((201, 1, 3), np.uint8), "k")), InvalidConfig, "narrower"),
        (Turn(Role.SYSTEM, (AudioPart(silent, "k"),)), InvalidConfig, "turns of the user"),
        (Turn(Role.ASSISTANT, (ImagePart(pixels, "k"),)), InvalidConfig, "turns of the user"),
        (user(TextPart("x " * MAX_LEN)), TextTooLong, "at most 191 fit"),
    ]
    for turn, kind, message in cases:
        with pytest.raises(kind, match=message):
            omni_parts.chat.prompt((turn,), spoken=True)
    with pytest.raises(TextTooLong):
        omni_parts.chat.prompt((user(TextPart("hello")),) * 10_000, spoken=True)


def test_what_the_model_does_not_accept_is_refused(omni_parts: OmniParts) -> None:
    chat = OmniChat(
        omni_parts.config,
        PreprocessorConfig(),
        omni_parts.byte_pairs,
        max_positions=100,
        input_modalities=frozenset({"image"}),
    )
    with pytest.raises(InvalidConfig, match="does not accept audio; it accepts image, text"):
        chat.prompt((user(AudioPart(speech(1.0), "k")),), spoken=True)


def test_tokens_decode_to_whole_characters(omni_parts: OmniParts) -> None:
    decoder = omni_parts.chat.decoder()
    ids = omni_parts.byte_pairs.encode("hé 世!")
    assert "".join(decoder.push(token) for token in ids) + decoder.flush() == "hé 世!"


def user(*parts: TextPart | AudioPart | ImagePart) -> Turn:
    return Turn(Role.USER, parts)
