"""One answer: every order in which the two engines may end, and one end."""

from collections.abc import Iterable

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from realtime_tts.engine.api import (
    AudioReady,
    Cancel,
    Extend,
    FinishReason,
    RequestAccepted,
    RequestFinished,
    Submit,
    TextEnd,
    TextFinished,
    TextReady,
    TextSampling,
)
from realtime_tts.engine.thinking import tone
from realtime_tts.engine.thinking.answer import Action, Answer, Forget, Think
from realtime_tts.engine.thinking.thinker import Written
from realtime_tts.errors import EngineUnavailable, Overloaded, SynthesisFailed
from tests.engine.thinking.answers import ask, audio

ACCEPTED = RequestAccepted("r")
COMPLETE = RequestFinished("r", FinishReason.COMPLETE)
ROWS = np.zeros((13, tone.HIDDEN), np.uint16)


def answer(*parts: object, voice: str | None = "tone_low", stop: tuple[str, ...] = ()) -> Answer:
    request = ask("r", *(parts or ("Hello",)), voice=voice, sampling=TextSampling(stop=stop))  # type: ignore[arg-type]
    chat = tone.ToneChat()
    return Answer(request, chat.prompt(request.turns, spoken=voice is not None), chat.decoder(), submitted_s=0.0)


def begun(*parts: object, voice: str | None = "tone_low") -> Answer:
    subject = answer(*parts, voice=voice)
    done = list(subject.begin(None, continues=False))
    if voice is not None:
        (submit,) = done
        assert isinstance(submit, Submit)
        assert submit.request.awaits_text
        done = list(subject.spoken(ACCEPTED))
    (think,) = done
    assert isinstance(think, Think)
    return subject


def written(text: str, end: TextEnd | None = None, **others: object) -> Written:
    return Written("r", tone.to_ids(text), end, **others)  # type: ignore[arg-type]


def kinds(actions: Iterable[Action]) -> list[type]:
    return [type(action) for action in actions]


def test_tokens_go_to_the_client_as_text_and_to_the_speech_engine_as_ids() -> None:
    subject = begun()
    ids = tone.to_ids("abc")
    assert list(subject.written(written("abc"))) == [TextReady("r", "abc", 1), Extend("r", "", False, ids)]
    (end, text_end) = subject.written(Written("r", (), TextEnd.STOP))
    assert end == Extend("r", "", True)
    assert text_end == TextFinished("r", TextEnd.STOP, 5, 1)
    assert not subject.ended
    assert list(subject.spoken(COMPLETE)) == [COMPLETE]
    assert subject.ended


def test_a_character_divided_between_tokens_is_text_only_when_it_is_complete() -> None:
    subject = begun()
    first, second = tone.to_ids("aéé")
    assert [each.text for each in subject.written(Written("r", (first,))) if isinstance(each, TextReady)] == ["aé"]
    first, second = tone.to_ids("abéé")[:2]
    subject = begun()
    texts = [each for step in (first, second) for each in subject.written(Written("r", (step,)))]
    assert [each.text for each in texts if isinstance(each, TextReady)] == ["ab", "éé"]
    assert [each.ids for each in texts if isinstance(each, Extend)] == [(first,), (second,)]


def test_speech_may_end_before_the_text() -> None:
    subject = begun()
    list(subject.written(written("abc")))
    truncated = RequestFinished("r", FinishReason.TRUNCATED)
    assert list(subject.spoken(truncated)) == []
    more = list(subject.written(written("def", TextEnd.STOP)))
    assert kinds(more) == [TextReady, TextFinished, RequestFinished]
    assert more[-1] == truncated


def test_the_rows_of_audio_cross_once_with_the_first_token() -> None:
    subject = answer(audio(1.0))
    (submit,) = subject.begin(None, continues=False)
    assert isinstance(submit, Submit)
    assert submit.request.context is None  # it is not complete without the rows
    list(subject.spoken(ACCEPTED))
    first = list(subject.written(written("abc", rows=ROWS)))
    (extend,) = (each for each in first if isinstance(each, Extend))
    assert extend.context is not None
    assert extend.context.rows is ROWS
    (extend,) = (each for each in subject.written(written("def")) if isinstance(each, Extend))
    assert extend.context is None


def test_a_thinker_that_gives_no_rows_fails_the_answer() -> None:
    subject = begun(audio(1.0))
    done = list(subject.written(written("abc")))
    assert kinds(done) == [TextReady, Forget, Cancel, RequestFinished]
    assert isinstance(done[-1].error, SynthesisFailed)  # type: ignore[union-attr]


def test_a_failure_of_the_thinker_before_the_first_token_fails_the_answer() -> None:
    subject = begun()
    error = EngineUnavailable("lost")
    done = list(subject.written(Written("r", (), TextEnd.ERROR, error=error)))
    assert done[-1] == RequestFinished("r", FinishReason.ERROR, error=error)
    assert Cancel("r") in done


def test_a_failure_of_the_thinker_later_truncates_the_answer_after_what_was_written_is_spoken() -> None:
    for voice in ("tone_low", None):
        subject = begun(voice=voice)
        list(subject.written(written("abc")))
        error = EngineUnavailable("lost")
        done = list(subject.written(Written("r", (), TextEnd.ERROR, error=error)))
        assert TextFinished("r", TextEnd.ERROR, 5, 1) in done
        if voice is not None:
            assert Extend("r", "", True) in done
            done = list(subject.spoken(COMPLETE))
        assert done[-1] == RequestFinished("r", FinishReason.TRUNCATED, error=error), voice


def test_a_failure_of_the_speech_engine_ends_the_text_too() -> None:
    subject = begun()
    list(subject.written(written("abc")))
    failed = RequestFinished("r", FinishReason.ERROR, error=SynthesisFailed("broken"))
    assert list(subject.spoken(failed)) == [Forget("r"), TextFinished("r", TextEnd.ERROR, 5, 1), failed]
    assert list(subject.written(written("def"))) == []


def test_of_two_refusals_the_later_retry_is_reported() -> None:
    for thinker_s, speech_s in ((3.0, 2.0), (2.0, 3.0)):
        subject = answer()
        list(subject.begin(Overloaded("thinker", retry_after_s=thinker_s), continues=False))
        refusal = RequestFinished("r", FinishReason.ERROR, error=Overloaded("speech", retry_after_s=speech_s))
        (end,) = subject.spoken(refusal)
        assert isinstance(end, RequestFinished)
        assert end.error is not None
        assert end.error.retry_after_s == 3.0, (thinker_s, speech_s)


def test_a_refusal_of_the_thinker_withdraws_the_request_for_speech() -> None:
    refusal = Overloaded("thinker")
    subject = answer()
    list(subject.begin(refusal, continues=False))
    assert list(subject.spoken(ACCEPTED)) == [Cancel("r"), RequestFinished("r", FinishReason.ERROR, error=refusal)]
    subject = answer(voice=None)
    assert list(subject.begin(refusal, continues=False)) == [
        RequestFinished("r", FinishReason.ERROR, error=refusal),
    ]


EVENTS = st.sampled_from(
    ["accept", "token", "stop", "length", "thinker error", "audio", "complete", "speech error", "cancel"]
)


@given(events=st.lists(EVENTS, max_size=14), voice=st.sampled_from(["tone_low", None]), refused=st.booleans())
@settings(deadline=None, max_examples=300)
def test_any_order_of_events_gives_at_most_one_end_and_nothing_after_it(
    events: list[str], voice: str | None, refused: bool
) -> None:
    subject = answer(voice=voice)
    steps: dict[str, object] = {
        "token": written("abc"),
        "stop": Written("r", (), TextEnd.STOP),
        "length": written("abc", TextEnd.LENGTH),
        "thinker error": Written("r", (), TextEnd.ERROR, error=EngineUnavailable("lost")),
        "accept": ACCEPTED,
        "audio": AudioReady("r", np.zeros(4, np.float32)),
        "complete": COMPLETE,
        "speech error": RequestFinished("r", FinishReason.ERROR, error=SynthesisFailed("broken")),
    }
    done = list(subject.begin(Overloaded("full") if refused else None, continues=False))
    for event in [*events, "cancel"]:
        if event == "cancel":
            done += subject.cancel()
        elif isinstance(step := steps[event], Written):
            done += subject.written(step)
        else:
            done += subject.spoken(step)  # type: ignore[arg-type]
    ends = [at for at, action in enumerate(done) if isinstance(action, RequestFinished)]
    assert ends == [len(done) - 1]
    assert sum(isinstance(action, TextFinished) for action in done) <= 1
    completed = [action for action in done if isinstance(action, Extend) and action.complete]
    assert len(completed) <= 1, "the speech engine's text ends once"
