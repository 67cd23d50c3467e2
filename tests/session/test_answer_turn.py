"""Turns of a model that answers: what is submitted, what the client receives, and what a cancel leaves."""

import base64
import dataclasses
import io
from typing import Any

import numpy as np
import PIL.Image

from realtime_tts.audio.pcm import pcm_bytes
from realtime_tts.engine.api import (
    AnswerRequest,
    AudioPart,
    AudioReady,
    EngineEvent,
    FinishReason,
    ImagePart,
    ModelInfo,
    RequestFinished,
    Role,
    SubmitAnswer,
    TextEnd,
    TextFinished,
    TextPart,
    TextReady,
)
from realtime_tts.engine.models import tone
from realtime_tts.errors import EngineUnavailable, Overloaded
from realtime_tts.frontends.native.messages import (
    AudioCancelled,
    AudioDone,
    AudioStart,
    ResponseStart,
    ResponseTextDelta,
    ResponseTextDone,
    ServerError,
    SessionDone,
    SessionUpdated,
    TurnCommitted,
)
from realtime_tts.session.answer_turn import MAX_AUDIO_S, MAX_IMAGES
from realtime_tts.session.events import Closed
from realtime_tts.session.session import Command
from tests.session.harness import CANCEL, DONE, FLUSH, STREAM, Harness

ANSWERS = tone.info(answers=True)
SAMPLES = np.full(24_000, 0.5, np.float32)


class Turns(Harness):
    """A session with a model that answers."""

    def __init__(self, info: ModelInfo = ANSWERS, **fields: Any) -> None:
        self.asked: list[AnswerRequest] = []
        super().__init__(info=info)
        self.client({**STREAM, **fields})

    def execute(self, commands: Any) -> None:
        listed: list[Command] = list(commands)
        self.asked += [each.request for each in listed if isinstance(each, SubmitAnswer)]
        super().execute(each for each in listed if not isinstance(each, SubmitAnswer))

    def engine(self, *events: EngineEvent) -> None:
        for event in events:
            self.execute(self.session.on_engine(event, self.now_s))

    def answer(self, *words: str, spoken: bool = True) -> None:
        """The whole answer to the last turn."""
        name = self.asked[-1].request_id
        self.engine(*(TextReady(name, word, 1) for word in words))
        if spoken:
            self.engine(AudioReady(name, SAMPLES))
        self.engine(TextFinished(name, TextEnd.STOP, 7, len(words)))
        self.engine(RequestFinished(name, FinishReason.COMPLETE))

    def binary(self, samples: np.ndarray) -> None:
        self.frame(pcm_bytes(samples))

    def kinds(self) -> list[str]:
        return [type(each).__name__ for each in self.sent[2:]]  # after session.created and session.updated


def picture(width: int = 4, height: int = 2) -> dict[str, Any]:
    file = io.BytesIO()
    PIL.Image.new("RGB", (width, height)).save(file, "PNG")
    return {"type": "input.image", "data": base64.b64encode(file.getvalue()).decode()}


def test_a_turn_has_its_parts_in_the_order_in_which_they_came() -> None:
    turns = Turns(instructions="Be brief.", input_sample_rate=48_000)
    turns.text("What ", "is ")
    turns.binary(np.zeros(24_000, np.float32))
    turns.client({"type": "input.audio", "audio": base64.b64encode(bytes(48_000)).decode()})
    turns.client(picture())
    turns.text("this?")
    assert turns.asked == []
    turns.client(FLUSH)
    assert turns.asked == []  # a turn is answered as a whole
    turns.client(DONE)
    (request,) = turns.asked
    system, user = request.turns
    assert (system.role, system.parts) == (Role.SYSTEM, (TextPart("Be brief."),))
    text, audio, image, last = user.parts
    assert (text, last) == (TextPart("What is "), TextPart("this?"))
    assert isinstance(audio, AudioPart)
    assert len(audio.samples) == 16_000  # two pieces of half a second, at the model's rate
    assert isinstance(image, ImagePart)
    assert image.pixels.shape == (2, 4, 3)
    assert turns.of(TurnCommitted)[0].audio_ms == 1000.0


def test_the_answer_is_text_and_one_sentence_of_audio() -> None:
    turns = Turns()
    turns.text("Hello?")
    turns.client(DONE)
    turns.answer("Good ", "day.")
    assert turns.kinds() == [
        *("TurnCommitted", "ResponseStart", "ResponseTextDelta", "ResponseTextDelta", "AudioStart", "bytes"),
        *("ResponseTextDone", "AudioDone", "SessionDone"),
    ]
    assert [each.delta for each in turns.of(ResponseTextDelta)] == ["Good ", "day."]
    (done,) = turns.of(ResponseTextDone)
    assert (done.text, done.reason) == ("Good day.", "stop")
    (start,) = turns.of(AudioStart)
    assert (start.sentence_text, start.text_span) == ("", (0, 0))
    assert turns.of(AudioDone)[0].sentence_text is None
    (session_done,) = turns.of(SessionDone)
    usage = session_done.usage
    assert (usage.characters, usage.audio_ms, usage.input_tokens, usage.output_tokens) == (6, 1000.0, 7, 2)
    assert turns.of(ResponseStart)[0].response_id == turns.asked[0].request_id


def test_a_text_answer_has_no_audio_and_the_next_turn_follows() -> None:
    turns = Turns(modalities=["text"])
    for number in range(4):
        turns.text(f"Question {number}")
        turns.client(DONE)
    assert len(turns.asked) == 2  # one ahead
    assert all(request.voice is None for request in turns.asked)
    for _ in range(4):
        index = len(turns.of(SessionDone))
        name = turns.asked[index].request_id
        turns.engine(TextReady(name, "Yes.", 1), TextFinished(name, TextEnd.LENGTH, 3, 1))
        turns.engine(RequestFinished(name, FinishReason.COMPLETE))
    assert len(turns.of(SessionDone)) == 4
    assert not turns.of(AudioStart)
    assert {done.reason for done in turns.of(ResponseTextDone)} == {"length"}


def test_the_settings_of_the_text_are_those_of_the_session() -> None:
    turns = Turns(temperature=0.7, top_p=0.9, top_k=5, seed=3, max_new_tokens=17, voice="tone_high")
    turns.text("Hello?")
    turns.client(DONE)
    (request,) = turns.asked
    sampling = request.text_sampling
    assert (sampling.temperature, sampling.top_p, sampling.top_k) == (0.7, 0.9, 5)
    assert (sampling.seed, sampling.max_tokens, request.voice) == (3, 17, "tone_high")
    config = turns.of(SessionUpdated)[0].config
    assert (config.modalities, config.input_sample_rate) == (("audio", "text"), 16_000)


def test_a_cancel_reports_what_was_played_of_the_answer_and_nothing_follows() -> None:
    turns = Turns()
    turns.text("Hello?")
    turns.client(DONE)
    name = turns.asked[0].request_id
    turns.engine(TextReady(name, "One two three four. ", 5), AudioReady(name, SAMPLES))
    turns.now_s += 0.7
    turns.engine(TextReady(name, "Five.", 1))
    turns.client({**CANCEL, "playback_offset_ms": 700})
    (cancelled,) = turns.of(AudioCancelled)
    assert cancelled.text_spoken
    assert cancelled.text_spoken + cancelled.text_remaining == "One two three four. Five."
    assert turns.cancelled == [name]
    count = len(turns.sent)
    turns.engine(TextReady(name, "Six.", 1), AudioReady(name, SAMPLES))
    assert len(turns.sent) == count
    turns.text("Again?")
    turns.client(DONE)
    assert len(turns.asked) == 2


def test_an_empty_turn_is_committed_and_not_answered() -> None:
    turns = Turns()
    turns.text("  ")
    turns.client(DONE)
    assert turns.asked == []
    assert turns.kinds() == ["TurnCommitted", "SessionDone"]


def test_an_answer_that_fails_is_reported_and_the_session_continues() -> None:
    for modalities in (["text"], ["text", "audio"]):
        turns = Turns(modalities=modalities)
        turns.text("Hello?")
        turns.client(DONE)
        name = turns.asked[0].request_id
        turns.engine(TextReady(name, "Good", 1), TextFinished(name, TextEnd.ERROR, 3, 1))
        turns.engine(RequestFinished(name, FinishReason.TRUNCATED, error=EngineUnavailable("lost")))
        (error,) = turns.of(ServerError)
        assert (error.code, error.fatal) == ("engine_unavailable", False), modalities
        assert turns.of(ResponseTextDone)[0].reason == "error"
        assert len(turns.of(SessionDone)) == 1


def test_a_refused_answer_ends_the_session_as_a_refused_sentence_does() -> None:
    turns = Turns()
    turns.text("Hello?")
    turns.client(DONE)
    refusal = Overloaded("full", retry_after_s=2.0)
    turns.engine(RequestFinished(turns.asked[0].request_id, FinishReason.ERROR, error=refusal))
    assert turns.of(Closed)[0].code == 1013


def test_too_much_audio_and_too_many_images_are_refused_and_the_turn_stays_open() -> None:
    turns = Turns(input_sample_rate=8000)
    second = bytes(2 * 8000)
    for _ in range(int(MAX_AUDIO_S)):
        turns.frame(second)
    assert not turns.of(ServerError)
    turns.frame(second)
    for _ in range(MAX_IMAGES + 1):
        turns.client(picture())
    turns.frame(b"odd")
    errors = turns.of(ServerError)
    assert [error.code for error in errors] == ["invalid_media"] * 3
    turns.client(DONE)
    assert len(turns.asked) == 1


def test_other_models_accept_neither_audio_nor_images_nor_the_settings_of_answers() -> None:
    harness = Harness()
    harness.client(STREAM)
    harness.frame(b"abcd")
    harness.client(picture())
    assert [error.code for error in harness.of(ServerError)] == ["unexpected_message"] * 2
    for field, value in (("modalities", ["text"]), ("input_sample_rate", 16_000)):
        harness.client({"type": "session.config", field: value})
        error = harness.of(ServerError)[-1]
        assert error.code == "invalid_config"
        assert error.message.startswith(field)


def test_a_model_without_voices_answers_in_text_alone() -> None:
    info = dataclasses.replace(ANSWERS, voices=(), default_voice=None)
    turns = Turns(info)
    turns.text("Hello?")
    turns.client(DONE)
    assert turns.asked[0].voice is None
    turns.answer("Yes.", spoken=False)
    assert turns.of(SessionDone)[0].total_sentences == 0
    turns.client({"type": "session.config", "modalities": ["text", "audio"]})
    (error,) = turns.of(ServerError)
    assert (error.code, error.param) == ("invalid_config", "modalities")
    turns.client({"type": "session.config", "modalities": None})
    assert turns.of(SessionUpdated)[-1].config.modalities == ("text",)


def test_modalities_that_do_not_exist_are_refused() -> None:
    turns = Turns()
    for value in ([], ["video"], ["text", "video"]):
        turns.client({"type": "session.config", "modalities": value})
    assert [error.code for error in turns.of(ServerError)] == ["invalid_config"] * 3
