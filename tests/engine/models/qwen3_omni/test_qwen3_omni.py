"""A complete model: the samples of its answers equal the reference's, and every end frees everything."""

import pytest

pytest.importorskip("torch")

from pathlib import Path

import numpy as np

from realtime_tts.engine.api import Cancel, FinishReason, Submit, SynthesisRequest, TextSampling
from realtime_tts.engine.models import qwen3_omni
from realtime_tts.engine.models.qwen3_omni.code2wav import START_SILENCE_SAMPLES
from realtime_tts.engine.stage import Model
from realtime_tts.errors import ModelNotUsable
from tests.engine.models.qwen3_omni.goldens import error, golden
from tests.engine.models.qwen3_omni.inputs import CONVERSATIONS
from tests.engine.models.qwen3_omni.make_checkpoint import make_checkpoint
from tests.engine.models.qwen3_omni.whole import GREEDY, Conversations, ask, build

NAMES = tuple(CONVERSATIONS)


def check(conversations: Conversations, name: str, number: int = 0) -> None:
    samples = conversations.samples(f"{name} {number}")
    assert len(samples) == 11 * 1920
    assert error(samples[START_SILENCE_SAMPLES:], f"{name}/wav") <= 1e-5, name
    decoder = conversations.model.answering.chat.decoder()  # type: ignore[union-attr]
    text = "".join(decoder.push(token) for token in golden(f"{name}/tokens").tolist()[:-1]) + decoder.flush()
    assert conversations.text(f"{name} {number}") == text, name


def test_samples_of_all_conversations_at_once_equal_the_reference(omni_model: Model) -> None:
    conversations = Conversations(omni_model)
    for name in NAMES:
        conversations.ask(ask(name))
    conversations.run()
    for name in NAMES:
        check(conversations, name)
        assert conversations.end(f"{name} 0").reason is FinishReason.TRUNCATED  # at its maximum of new tokens
    conversations.assert_nothing_is_left()


@pytest.mark.slow
def test_answers_that_arrive_while_others_speak_equal_the_reference(omni_model: Model) -> None:
    conversations = Conversations(omni_model)
    for number, name in enumerate((*NAMES, *NAMES)):
        at_s = number * 0.5
        conversations.simulation.at(at_s, lambda name=name, number=number: conversations.ask(ask(name, number)))  # type: ignore[misc]
    conversations.run()
    for number, name in enumerate((*NAMES, *NAMES)):
        check(conversations, name, number)
    conversations.assert_nothing_is_left()


@pytest.mark.slow
def test_a_cancel_at_any_moment_frees_everything_and_affects_no_other(omni_model: Model) -> None:
    for moment in range(0, 12, 3):
        conversations = Conversations(omni_model)
        conversations.ask(ask("mixed"))
        conversations.ask(ask("audio"))
        conversations.simulation.at(moment * 0.25, lambda c=conversations: c.simulation.send(Cancel("mixed 0")))  # type: ignore[misc]
        conversations.run()
        check(conversations, "audio")
        conversations.end("mixed 0")
        conversations.assert_nothing_is_left()


@pytest.mark.slow
def test_many_mixed_answers_with_cancels_leave_nothing(omni_model: Model) -> None:
    random = np.random.default_rng(0)
    conversations = Conversations(omni_model)
    whole = []
    for number in range(60):
        name = NAMES[random.integers(len(NAMES))]
        request = ask(name, number, voice="ethan" if random.random() < 0.8 else None)
        at_s = float(random.uniform(0, 20))
        conversations.simulation.at(at_s, lambda request=request: conversations.ask(request))  # type: ignore[misc]
        if random.random() < 0.4:
            cancel = Cancel(request.request_id)
            at_s += float(random.exponential(1.0))
            conversations.simulation.at(at_s, lambda cancel=cancel: conversations.simulation.send(cancel))  # type: ignore[misc]
        elif request.voice is not None:
            whole.append((name, number))
    conversations.run()
    assert len(conversations.events) == 60
    for request_id in conversations.events:
        conversations.end(request_id)
    for name, number in whole:
        check(conversations, name, number)
    conversations.assert_nothing_is_left()


def test_an_answer_in_text_alone_uses_nothing_that_speaks(omni_model: Model) -> None:
    conversations = Conversations(omni_model)
    conversations.ask(ask("image", voice=None))
    conversations.run()
    assert conversations.text("image 0")
    assert not len(conversations.samples("image 0"))
    assert conversations.end("image 0").reason is FinishReason.COMPLETE
    conversations.assert_nothing_is_left()


def test_text_can_be_spoken_without_an_answer(omni_model: Model) -> None:
    conversations = Conversations(omni_model)
    request = SynthesisRequest("spoken", "s", "hello the world", "aiden", sampling=GREEDY)
    conversations.simulation.send(Submit(request))
    conversations.run()
    assert len(conversations.samples("spoken")) == 11 * 1920
    conversations.assert_nothing_is_left()


def test_a_model_without_speech_answers_in_text(tmp_path: Path) -> None:
    make_checkpoint(tmp_path, text_only=True)
    model = build(tmp_path)
    assert model.info.voices == ()
    conversations = Conversations(model)
    conversations.ask(ask("audio", voice=None, text_sampling=TextSampling(max_tokens=4)))
    conversations.run()
    assert conversations.end("audio 0").reason is FinishReason.COMPLETE
    assert conversations.text("audio 0")


def test_captured_steps_give_the_same_samples(omni: Path) -> None:
    conversations = Conversations(build(omni, graphs=True))
    for name in ("image", "turns"):
        conversations.ask(ask(name))
    conversations.run()
    for name in ("image", "turns"):
        check(conversations, name)


def test_a_directory_describes_itself_without_its_weights(omni: Path) -> None:
    info = qwen3_omni.info(omni)
    assert info.voice_names == ("chelsie", "ethan", "aiden")
    assert info.default_voice == "ethan"
    assert info.answers
    assert info.input_modalities == {"audio", "image"}
    assert info.input_rate_hz == 16_000
    with pytest.raises(ModelNotUsable, match=r"model_dir.*Qwen/Qwen3-Omni"):
        qwen3_omni.info()


def test_the_first_samples_are_silence_of_23_ms(omni_model: Model) -> None:
    conversations = Conversations(omni_model)
    conversations.ask(ask("text"))
    conversations.run()
    assert not np.any(conversations.samples("text 0")[:START_SILENCE_SAMPLES])
