"""Store of answers, whose text a later request may name by the id of their audio."""

from collections import OrderedDict

from realtime_tts.clock import Clock

KEPT_S = 3600.0
MAX_ANSWERS = 10_000
MAX_CHARS = 10_000_000


class AnswerStore:
    """Bounded in time, number and characters: the oldest answers go first.  It keeps text, and no audio."""

    def __init__(self, clock: Clock, *, max_answers: int = MAX_ANSWERS, max_chars: int = MAX_CHARS) -> None:
        self._clock = clock
        self._max_answers = max_answers
        self._max_chars = max_chars
        self._answers: OrderedDict[str, tuple[float, str]] = OrderedDict()
        self._chars = 0

    def __len__(self) -> int:
        return len(self._answers)

    def add(self, answer_id: str, text: str) -> None:
        self._answers[answer_id] = self._clock.now_s() + KEPT_S, text
        self._chars += len(text)
        while len(self._answers) > self._max_answers or self._chars > self._max_chars:
            self._drop_oldest()

    def text(self, answer_id: str) -> str | None:
        """None if it is not known, or no longer."""
        now_s = self._clock.now_s()
        while self._answers and next(iter(self._answers.values()))[0] <= now_s:
            self._drop_oldest()
        found = self._answers.get(answer_id)
        return None if found is None else found[1]

    def _drop_oldest(self) -> None:
        _id, (_expires_s, text) = self._answers.popitem(last=False)
        self._chars -= len(text)
