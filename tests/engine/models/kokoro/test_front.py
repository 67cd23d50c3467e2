"""Text becomes frames, a piece at a time, or an error that says in plain words why not."""

import numpy as np
import pytest

from realtime_tts.engine.api import SynthesisRequest, Word
from realtime_tts.engine.models.kokoro.frames import FRAME_WIDTH
from realtime_tts.engine.models.kokoro.front import FrontStage
from realtime_tts.engine.models.kokoro.phonemes import Piece, Pronunciations
from realtime_tts.engine.models.kokoro.styles import load_styles
from realtime_tts.engine.stage import StageInput, host_array
from realtime_tts.errors import NothingToSpeak, SynthesisFailed
from tests.aligned import aligned

STYLES = load_styles()


class FakeSession:
    """Gives two frames for every token."""

    def __init__(self, value: float = 1.0) -> None:
        self.value = value
        self.fed: list[dict[str, np.ndarray]] = []

    def run(self, outputs: list[str], feed: dict[str, np.ndarray]) -> list[np.ndarray]:
        self.fed.append(feed)
        n = 2 * feed["tokens"].shape[1]
        made = [
            np.full((1, channels, size), self.value, dtype=np.float32)
            for channels, size in ((512, n), (1, 2 * n), (1, 2 * n))
        ]
        return [*made, np.full((1, n // 2), 2.0, dtype=np.float32)]


def stage(session: FakeSession, pieces: list[list[int]]) -> FrontStage:
    """Every token is an "a" that stands for the text's first word, but 9: the second word's."""

    def read(text: str, pronunciations: Pronunciations) -> list[Piece]:
        return [Piece(aligned("a" * len(tokens), [5 * (t == 9) for t in tokens]), tuple(tokens)) for tokens in pieces]

    return FrontStage(session, read, STYLES)


def request(speed: float = 1.0) -> StageInput:
    return StageInput(SynthesisRequest("r", "s", "text here", "af_heart", speed))


def test_each_run_reads_one_piece_and_the_last_says_so() -> None:
    front = stage(FakeSession(), [[1, 2], [3]])
    first, second = front.run([request()])[0], front.run([request()])[0]
    assert (len(first.values), first.finished) == (8, False)
    assert (len(second.values), second.finished) == (6, True)
    assert host_array(first.values).shape[1] == FRAME_WIDTH


def test_the_model_is_given_padded_tokens_the_style_of_their_number_and_the_speed() -> None:
    session = FakeSession()
    stage(session, [[5, 6, 7]]).run([request(speed=1.5)])
    (fed,) = session.fed
    assert fed["tokens"].tolist() == [[0, 5, 6, 7, 0]]
    assert fed["speed"].tolist() == [1.5]
    np.testing.assert_array_equal(fed["style"], STYLES["af_heart"].row(2))


def test_words_come_with_the_piece_that_ends_them_and_count_from_the_first_sample() -> None:
    front = stage(FakeSession(), [[1, 2], [3, 9]])
    assert front.run([request()])[0].words == ()
    # 8 frames, then a pad of 2 of which the word begins a frame early, 2 of the first word, 2 of the second.
    assert front.run([request()])[0].words == (Word(0, 4, 0.025, 0.3), Word(5, 9, 0.3, 0.35))


def test_the_words_own_pronunciations_are_read() -> None:
    asked: list[tuple[str, Pronunciations]] = []

    def read(text: str, pronunciations: Pronunciations) -> list[Piece]:
        asked.append((text, pronunciations))
        return []

    own = (("text", "tɛkst"),)
    FrontStage(FakeSession(), read, STYLES).run(
        [StageInput(SynthesisRequest("r", "s", "text", "af_heart", pronunciations=own))]
    )
    assert asked == [("text", own)]


def test_the_longest_piece_has_a_style() -> None:
    session = FakeSession()
    stage(session, [[5] * 510]).run([request()])
    np.testing.assert_array_equal(session.fed[0]["style"], STYLES["af_heart"].row(509))


def test_nothing_to_speak_is_said_in_plain_words() -> None:
    output = stage(FakeSession(), []).run([request()])[0]
    assert isinstance(output.error, NothingToSpeak)
    assert output.error.message == "the text holds nothing that can be pronounced"
    assert host_array(output.values).shape == (0, FRAME_WIDTH)
    assert output.finished


def test_features_that_are_not_numbers_fail_the_request() -> None:
    output = stage(FakeSession(float("nan")), [[1]]).run([request()])[0]
    assert isinstance(output.error, SynthesisFailed)


def test_a_released_request_starts_anew() -> None:
    front = stage(FakeSession(), [[1, 2], [3]])
    front.run([request()])
    front.release("r")
    front.release("unknown")
    assert len(front.run([request()])[0].values) == 8


@pytest.mark.parametrize("pieces", [[[1]], [[1], [2]]])
def test_release_forgets_everything(pieces: list[list[int]]) -> None:
    front = stage(FakeSession(), pieces)
    front.run([request()])
    front.release("r")
    assert not front._readings
