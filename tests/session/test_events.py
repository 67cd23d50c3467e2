"""Events of a session: values derived from their fields."""

from realtime_tts.audio.playout import PlayoutLedger
from realtime_tts.engine.api import FinishReason
from realtime_tts.session.events import UtteranceDone


def test_an_utterance_is_complete_only_if_all_of_its_sentences_are() -> None:
    complete, truncated, error = FinishReason.COMPLETE, FinishReason.TRUNCATED, FinishReason.ERROR
    for outcomes, cancelled, reason in (
        ((), False, "complete"),
        ((complete, complete), False, "complete"),
        ((complete, error), False, "incomplete"),
        ((truncated,), False, "incomplete"),
        ((error,), False, "incomplete"),
        ((complete,), True, "cancelled"),
    ):
        done = UtteranceDone(
            utterance_index=0,
            context_id=None,
            total_sentences=len(outcomes),
            cancelled=cancelled,
            characters=0,
            report=PlayoutLedger().report(started_at_s=0.0),
            ttfa_s=None,
            continuity_ok=None,
            continuity_threshold_s=0.1,
            outcomes=outcomes,
        )
        assert done.reason == reason, outcomes
