"""Tests of frames: packing is lossless, the phase continues from frame to frame, only silence is removed."""

import numpy as np
import numpy.typing as npt

from realtime_tts.engine.models.kokoro.frames import (
    FEATURES,
    FRAME_WIDTH,
    SAMPLE_RATE_HZ,
    harmonic_phases,
    pack_frames,
    runs_of,
    unpack_frames,
    without_leading_silence,
)

Array = npt.NDArray[np.float32]


def make_frames(frames: int, *, piece: int = 0, style: int = 7, pitch_hz: float = 100.0, silent: int = 0) -> Array:
    features = np.arange(FEATURES * frames, dtype=np.float32).reshape(1, FEATURES, frames)
    noise = np.full((1, 2 * frames), 5.0, dtype=np.float32)
    noise[:, : 2 * silent] = -9.0
    f0 = np.full((1, 2 * frames), pitch_hz, dtype=np.float32)
    return pack_frames(features, f0, noise, piece=piece, style=style)


def test_unpacking_restores_the_packed_values() -> None:
    frames = make_frames(5)
    assert frames.shape == (5, FRAME_WIDTH)
    features, f0, noise = unpack_frames(frames[1:4])
    np.testing.assert_array_equal(
        features, np.arange(FEATURES * 5, dtype=np.float32).reshape(1, FEATURES, 5)[:, :, 1:4]
    )
    assert f0.shape == noise.shape == (1, 6)


def test_adjacent_pieces_with_one_style_are_separate_runs() -> None:
    frames = np.concatenate([make_frames(3, piece=0), make_frames(2, piece=1), make_frames(4, piece=2, style=509)])
    assert [(run.start, run.end, run.style) for run in runs_of(frames)] == [(0, 3, 7), (3, 5, 7), (5, 9, 509)]


def test_the_phase_continues_from_frame_to_frame() -> None:
    # 110 Hz for 25 ms: 2.75 cycles per frame.
    frames = make_frames(4, pitch_hz=110.0)
    expected = np.arange(4) * 110 * 600 / SAMPLE_RATE_HZ % 1
    np.testing.assert_allclose(frames[:, -2], expected, atol=1e-6)
    np.testing.assert_allclose(harmonic_phases(frames[1:])[0, 0], np.arange(1, 10) * 0.75 / 300, atol=1e-6)


def test_leading_silence_is_reduced_to_two_frames() -> None:
    frames = make_frames(30, silent=12)
    np.testing.assert_array_equal(without_leading_silence(frames), frames[10:])


def test_a_start_without_silence_is_kept_whole() -> None:
    assert len(without_leading_silence(make_frames(30, silent=1))) == 30


def test_frames_without_any_sound_are_kept_whole() -> None:
    assert len(without_leading_silence(make_frames(60, silent=60))) == 60
