"""All answers of one engine: what is refused, which commands pass, and when a Thinker's step is bounded."""

from dataclasses import replace

import numpy as np

from realtime_tts.engine.api import (
    AudioPart,
    AudioSent,
    Cancel,
    EndStream,
    FinishReason,
    PlayoutEnd,
    RequestAccepted,
    RequestFinished,
    Role,
    SubmitAnswer,
    TextPart,
    TextSampling,
    Turn,
)
from realtime_tts.engine.models import tone
from realtime_tts.engine.thinking import tone as thinking
from realtime_tts.engine.thinking.answer import Action, Forget, Think
from realtime_tts.engine.thinking.answer_table import AnswerTable
from realtime_tts.engine.thinking.loop import ThinkerStatus
from realtime_tts.engine.thinking.thinker import Written
from realtime_tts.errors import EngineUnavailable, InvalidConfig, Overloaded, RealtimeTTSError, TextTooLong
from tests.engine.thinking.answers import ask, turn

STATUS = ThinkerStatus(ready=True, reason="ready", capacity=2, positions=100_000, max_positions=1000)


def table(max_wait_s: float | None = 0.0, max_requests: int = 8) -> AnswerTable:
    info = tone.info(answers=True)
    return AnswerTable(thinking.ToneChat(), info, max_wait_s=max_wait_s, max_requests=max_requests)


def submit(subject: AnswerTable, name: str, status: ThinkerStatus = STATUS, voice: str | None = None) -> list[Action]:
    return subject.command(SubmitAnswer(ask(name, "Hello", voice=voice)), status, 0.0)


def error_of(actions: list[Action]) -> RealtimeTTSError | None:
    (end,) = actions
    assert isinstance(end, RequestFinished)
    assert end.reason is FinishReason.ERROR
    return end.error


def test_what_cannot_be_answered_is_refused_before_it_reaches_an_engine() -> None:
    silence = AudioPart(np.zeros(10, np.float32), "key")
    cases: list[tuple[tuple[Turn, ...], type[RealtimeTTSError]]] = [
        ((), InvalidConfig),
        ((Turn(Role.SYSTEM, (TextPart("Be brief."),)),), InvalidConfig),
        ((turn("Hello"), Turn(Role.ASSISTANT, (silence,)), turn("Hello")), InvalidConfig),
        ((turn("x" * 4000),), TextTooLong),
    ]
    for turns, kind in cases:
        subject = table()
        request = replace(ask("r", "Hello"), turns=turns)
        assert isinstance(error_of(subject.command(SubmitAnswer(request), STATUS, 0.0)), kind), turns
        assert subject.is_empty
    text_model = AnswerTable(thinking.ToneChat(), tone.info(), max_wait_s=0.0, max_requests=8)
    assert isinstance(error_of(text_model.command(SubmitAnswer(ask("r", silence)), STATUS, 0.0)), InvalidConfig)


def test_an_answer_has_at_most_the_tokens_that_fit_beside_its_prompt() -> None:
    (think,) = table().command(
        SubmitAnswer(ask("r", "Hello", voice=None, sampling=TextSampling(max_tokens=5000))), STATUS, 0.0
    )
    assert isinstance(think, Think)
    assert think.request.positions == STATUS.max_positions


def test_a_thinker_without_capacity_or_memory_or_that_is_not_ready_refuses() -> None:
    subject = table()
    for name in ("one", "two"):
        assert isinstance(submit(subject, name)[0], Think)
    assert isinstance(error_of(submit(subject, "three")), Overloaded)
    assert isinstance(error_of(submit(table(), "r", replace(STATUS, positions=500))), Overloaded)
    unready = ThinkerStatus(ready=False, reason="being replaced")
    assert isinstance(error_of(submit(table(), "r", unready)), EngineUnavailable)
    small = table(max_requests=1)
    submit(small, "one")
    assert isinstance(error_of(submit(small, "two")), Overloaded)


def test_with_time_to_wait_one_more_may_wait() -> None:
    subject = table(max_wait_s=None)
    for name in ("one", "two", "three"):
        assert isinstance(submit(subject, name)[0], Think), name
    assert subject.thinking == subject.text_only == 3


def test_an_answer_of_a_known_listener_continues_a_conversation() -> None:
    subject = table(max_wait_s=None)
    for name, continues in (("one", False), ("two", True)):
        request = ask(name, "Hello", voice=None, stream="listener")
        (think,) = subject.command(SubmitAnswer(request), STATUS, 0.0)
        assert isinstance(think, Think)
        assert think.request.continues is continues, name


def test_commands_that_concern_no_answer_pass() -> None:
    subject = table()
    for command in (Cancel("other"), AudioSent("other", 10, 0.1), PlayoutEnd("other", 0.0), EndStream("other")):
        assert subject.command(command, STATUS, 0.0) == [command]
    assert subject.on_speech(RequestAccepted("other"), 0.0) == []
    assert subject.on_written([Written("other", (1,))], 0.0) == []


def test_the_end_of_a_stream_ends_its_answers_and_forgets_the_listener() -> None:
    subject = table(max_wait_s=None)
    submit(subject, "r")
    actions = subject.command(EndStream("r"), STATUS, 1.0)
    assert actions == [Forget("r"), RequestFinished("r", FinishReason.CANCELLED), EndStream("r")]
    assert subject.is_empty


def test_all_answers_end_when_the_engine_stops() -> None:
    subject = table(max_wait_s=None)
    submit(subject, "text")
    submit(subject, "spoken", voice="tone_low")
    ends = [each for each in subject.end_all(EngineUnavailable("stopping"), 1.0) if isinstance(each, RequestFinished)]
    assert {end.request_id for end in ends} == {"text", "spoken"}
    assert not len(subject)


def test_a_step_is_bounded_while_a_listener_needs_tokens_soon() -> None:
    subject = table()
    assert not subject.needs_bound(0.0)
    submit(subject, "r", voice="tone_low")
    subject.on_speech(RequestAccepted("r"), 0.0)
    assert not subject.needs_bound(0.0)  # its prompt is read first
    subject.on_written([Written("r", thinking.to_ids("abc" * 10))], 0.0)
    assert subject.needs_bound(0.0)
    subject.on_written([Written("r", thinking.to_ids("abc" * 40))], 0.0)
    assert not subject.needs_bound(0.0)  # 50 tokens are worth 4 s of audio
    subject.command(AudioSent("r", 24_000 * 3, 3.0), STATUS, 0.0)
    assert not subject.needs_bound(1.0)
    assert subject.needs_bound(2.5)
    subject.command(PlayoutEnd("r", 3.0), STATUS, 2.5)
    assert not subject.needs_bound(2.5)
