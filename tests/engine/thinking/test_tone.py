"""The Thinker with set costs: its tokens, its chat format, and prompts that are read in parts."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from realtime_tts.engine.api import AudioPart, ImagePart, Role, TextEnd, TextPart, TextSampling, Turn
from realtime_tts.engine.thinking import tone
from realtime_tts.engine.thinking.thinker import ThinkerLoad, ThinkerPrompt
from realtime_tts.errors import TextTooLong

SAMPLING = TextSampling()


def user(*parts: TextPart | AudioPart | ImagePart) -> Turn:
    return Turn(Role.USER, parts)


def thinker(**costs: float) -> tuple[tone.ToneThinker, list[float]]:
    spent: list[float] = []
    return tone.ToneThinker(tone.ThinkerCosts(**costs), spent.append), spent


def prompt(*turns: Turn, spoken: bool = False) -> ThinkerPrompt:
    return tone.ToneChat().prompt(turns, spoken=spoken).thinker


def text_of(ids: list[int]) -> str:
    decoder = tone.ToneDecoder()
    return "".join(decoder.push(token) for token in ids) + decoder.flush()


@given(text=st.text(max_size=30))
@settings(deadline=None, max_examples=100)
def test_tokens_are_decoded_to_their_text_in_whole_characters(text: str) -> None:
    text = text.encode("utf-8", "replace").decode()
    decoder = tone.ToneDecoder()
    pieces = [decoder.push(token) for token in tone.to_ids(text)]
    assert "".join(pieces) == text
    assert decoder.flush() == ""


def test_the_last_user_turn_is_answered() -> None:
    subject, _spent = thinker()
    turns = (user(TextPart("One?")), Turn(Role.ASSISTANT, (TextPart("Two."),)), user(TextPart("Thr"), TextPart("ee?")))
    subject.join("r", prompt(*turns), SAMPLING)
    ids: list[int] = []
    while subject.rows:
        (written,) = subject.step()
        ids += written.ids
    assert written.end is TextEnd.STOP
    assert text_of(ids) == "You said: Three?"


def test_audio_and_images_are_pads_whose_rows_come_with_the_first_token() -> None:
    turn = user(AudioPart(np.zeros(32_000, np.float32), "a"), ImagePart(np.zeros((64, 40, 3), np.uint8), "i"))
    chat = tone.ToneChat().prompt((turn,), spoken=True)
    assert chat.thinker.ids.count(tone.AUDIO_PAD) == 26
    assert chat.thinker.ids.count(tone.IMAGE_PAD) == 4
    assert chat.thinker.wants_rows
    assert not tone.ToneChat().prompt((turn,), spoken=False).thinker.wants_rows
    subject, _spent = thinker()
    subject.join("r", chat.thinker, SAMPLING)
    (first,), (second,) = subject.step(), subject.step()
    assert first.rows is not None
    assert first.rows.shape == (30, tone.HIDDEN)
    assert second.rows is None


def test_an_answer_ends_at_its_limit_of_tokens() -> None:
    subject, _spent = thinker()
    subject.join("r", prompt(user(TextPart("Hello"))), TextSampling(max_tokens=2))
    assert [written.end for _ in range(2) for written in subject.step()] == [None, TextEnd.LENGTH]
    assert subject.step() == ()


def test_prompts_are_read_in_parts_within_the_budget_and_in_order() -> None:
    subject, spent = thinker(base_s=1.0, per_row_s=0.1, per_prompt_token_s=0.01)
    one, two = prompt(user(TextPart("x" * 30))), prompt(user(TextPart("y" * 30)))
    assert len(one.ids) == 13
    subject.join("one", one, SAMPLING)
    subject.join("two", two, SAMPLING)
    assert [written.request_id for written in subject.step(16)] == ["one"]
    load = subject.load()
    assert (load.running, load.waiting, load.unread_prompt_tokens) == (1, 1, 10)
    assert [written.request_id for written in subject.step(16)] == ["one", "two"]
    assert spent == [pytest.approx(1.0 + 0.1 + 0.16), pytest.approx(1.0 + 0.2 + 0.10)]


def test_a_request_that_leaves_keeps_nothing() -> None:
    subject, _spent = thinker()
    subject.join("r", prompt(user(TextPart("Hello"))), SAMPLING)
    subject.step()
    subject.leave("r")
    subject.leave("unknown")
    load = subject.load()
    assert load == ThinkerLoad(0, 0, 0, load.positions, load.positions)


def test_a_conversation_beyond_the_positions_is_refused() -> None:
    subject, _spent = thinker()
    with pytest.raises(TextTooLong):
        subject.join("r", prompt(user(TextPart("x" * 60_000))), SAMPLING)
