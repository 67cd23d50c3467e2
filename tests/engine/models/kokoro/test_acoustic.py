"""Tests of the acoustic stage: text to frames, one piece per run, or an error that states the reason."""

import numpy as np

from realtime_tts.engine.api import SynthesisRequest, Word
from realtime_tts.engine.models.kokoro.acoustic import AcousticStage
from realtime_tts.engine.models.kokoro.frames import FRAME_WIDTH
from realtime_tts.engine.models.kokoro.phonemes import Piece, Pronunciations
from realtime_tts.engine.models.kokoro.styles import load_styles
from realtime_tts.engine.stage import StageInput, host_array
from realtime_tts.errors import NothingToSpeak, SynthesisFailed
from tests.aligned import aligned

STYLES = load_styles()


class FakeSession:
    """Computes two frames for every token."""

    def __init__(self, value: float = 1.0) -> None:
        self.value = value
        self.inputs: list[dict[str, np.ndarray]] = []

    def run(self, outputs: list[str], inputs: dict[str, np.ndarray]) -> list[np.ndarray]:
        self.inputs.append(inputs)
        n = 2 * inputs["tokens"].shape[1]
        arrays = [
            np.full((1, channels, size), self.value, dtype=np.float32)
            for channels, size in ((512, n), (1, 2 * n), (1, 2 * n))
        ]
        return [*arrays, np.full((1, n // 2), 2.0, dtype=np.float32)]


def stage(session: FakeSession, pieces: list[list[int]]) -> AcousticStage:
    """Every token is an "a" of the text's first word, except token 9, which is of the second word."""

    def read(text: str, pronunciations: Pronunciations, voice: str) -> list[Piece]:
        return [Piece(aligned("a" * len(tokens), [5 * (t == 9) for t in tokens]), tuple(tokens)) for tokens in pieces]

    return AcousticStage(session, read, STYLES)


def request(speed: float = 1.0) -> StageInput:
    return StageInput(SynthesisRequest("r", "s", "text here", "af_heart", speed))


def test_each_run_computes_one_piece_and_the_last_is_finished() -> None:
    acoustic = stage(FakeSession(), [[1, 2], [3]])
    first, second = acoustic.run([request()])[0], acoustic.run([request()])[0]
    assert (len(first.values), first.finished) == (8, False)
    assert (len(second.values), second.finished) == (6, True)
    assert host_array(first.values).shape[1] == FRAME_WIDTH


def test_the_model_gets_padded_tokens_the_style_for_their_number_and_the_speed() -> None:
    session = FakeSession()
    stage(session, [[5, 6, 7]]).run([request(speed=1.5)])
    (inputs,) = session.inputs
    assert inputs["tokens"].tolist() == [[0, 5, 6, 7, 0]]
    assert inputs["speed"].tolist() == [1.5]
    np.testing.assert_array_equal(inputs["style"], STYLES["af_heart"].row(2))


def test_words_come_with_the_piece_that_ends_them_and_count_from_the_first_sample() -> None:
    acoustic = stage(FakeSession(), [[1, 2], [3, 9]])
    assert acoustic.run([request()])[0].words == ()
    # 8 frames, then a pad of 2 (the word begins one frame early), 2 of the first word, 2 of the second.
    assert acoustic.run([request()])[0].words == (Word(0, 4, 0.025, 0.3), Word(5, 9, 0.3, 0.35))


def test_the_requests_pronunciations_and_voice_are_used() -> None:
    calls: list[tuple[str, Pronunciations, str]] = []

    def read(text: str, pronunciations: Pronunciations, voice: str) -> list[Piece]:
        calls.append((text, pronunciations, voice))
        return []

    own = (("text", "tɛkst"),)
    AcousticStage(FakeSession(), read, STYLES).run(
        [StageInput(SynthesisRequest("r", "s", "text", "af_heart", pronunciations=own))]
    )
    assert calls == [("text", own, "af_heart")]


def test_the_longest_piece_has_a_style() -> None:
    session = FakeSession()
    stage(session, [[5] * 510]).run([request()])
    np.testing.assert_array_equal(session.inputs[0]["style"], STYLES["af_heart"].row(509))


def test_text_without_words_is_refused_with_a_message() -> None:
    output = stage(FakeSession(), []).run([request()])[0]
    assert isinstance(output.error, NothingToSpeak)
    assert output.error.message == "the text holds nothing that can be pronounced"
    assert host_array(output.values).shape == (0, FRAME_WIDTH)
    assert output.finished


def test_features_that_are_not_finite_fail_the_request() -> None:
    output = stage(FakeSession(float("nan")), [[1]]).run([request()])[0]
    assert isinstance(output.error, SynthesisFailed)


def test_a_released_request_starts_again() -> None:
    acoustic = stage(FakeSession(), [[1, 2], [3]])
    acoustic.run([request()])
    acoustic.release("r")
    acoustic.release("unknown")
    assert len(acoustic.run([request()])[0].values) == 8


def test_release_frees_the_request() -> None:
    for pieces in ([[1]], [[1], [2]]):
        acoustic = stage(FakeSession(), pieces)
        acoustic.run([request()])
        acoustic.release("r")
        assert not acoustic._progress, pieces
