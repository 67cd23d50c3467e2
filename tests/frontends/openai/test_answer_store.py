"""Store of answers: bounded in time, number and characters."""

from realtime_tts.clock import VirtualClock
from realtime_tts.frontends.openai.answer_store import KEPT_S, AnswerStore


def test_an_answer_is_kept_for_an_hour() -> None:
    clock = VirtualClock()
    store = AnswerStore(clock)
    store.add("a", "text")
    assert store.text("a") == "text"
    assert store.text("b") is None
    clock.advance(KEPT_S)
    assert store.text("a") is None
    assert len(store) == 0


def test_the_oldest_answers_go_first() -> None:
    store = AnswerStore(VirtualClock(), max_answers=2)
    for name in ("a", "b", "c"):
        store.add(name, name)
    assert [store.text(name) for name in ("a", "b", "c")] == [None, "b", "c"]


def test_the_characters_of_all_answers_are_bounded() -> None:
    store = AnswerStore(VirtualClock(), max_chars=10)
    for name in ("a", "b", "c"):
        store.add(name, "12345")
    assert [store.text(name) is not None for name in ("a", "b", "c")] == [False, True, True]
    store.add("d", "x" * 11)
    assert len(store) == 0
