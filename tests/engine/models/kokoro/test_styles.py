"""Tests of the packed voices: complete, unaltered, and of the shapes that the model expects."""

import shutil
from pathlib import Path

import numpy as np
import pytest

from realtime_tts.engine.models.kokoro.onnx_rewrite.streaming_inputs import NORM_CHANNELS
from realtime_tts.engine.models.kokoro.styles import (
    CHECKSUMS_NAME,
    LONG_ROW,
    MAX_CACHED_MIXES,
    SHORT_ROW,
    STYLE_ROWS,
    STYLE_WIDTH,
    VOICES_DIR,
    is_english,
    load_styles,
    pack_style,
    shortness,
    style_row,
    unpack_style,
    voices_of,
)
from realtime_tts.errors import ModelNotUsable
from tests.engine.models.kokoro.conftest import Speaker, real_voice


@pytest.fixture
def altered(tmp_path: Path) -> Path:
    directory = tmp_path / "voices"
    directory.mkdir()
    lines = (VOICES_DIR / CHECKSUMS_NAME).read_text("ascii").splitlines(keepends=True)[:2]
    (directory / CHECKSUMS_NAME).write_text("".join(lines), "ascii")
    for line in lines:
        shutil.copy(VOICES_DIR / line.split()[1], directory)
    return directory


def test_all_28_english_voices_load() -> None:
    styles = load_styles()
    assert len(styles) == 28
    for style in styles.values():
        assert style.table.shape == (STYLE_ROWS, STYLE_WIDTH)
        assert style.norms.shape == (2, NORM_CHANNELS)
        assert np.isfinite(style.table.astype(np.float32)).all()
        assert np.isfinite(style.norms).all()


def test_the_name_of_a_voice_gives_its_language() -> None:
    languages = {voice.name: voice.language for voice in voices_of(load_styles())}
    assert languages["af_heart"] == languages["am_michael"] == "en-US"
    assert languages["bf_emma"] == languages["bm_george"] == "en-GB"


def test_only_english_voices_are_packed() -> None:
    assert is_english("af_heart")
    assert not is_english("jf_alpha")


def test_the_longest_piece_has_a_style() -> None:
    row = load_styles()["af_heart"].row(style_row(STYLE_ROWS))
    assert row.shape == (1, STYLE_WIDTH)
    assert row.dtype == np.float32


def test_a_mix_is_the_weighted_mean_of_its_voices() -> None:
    styles = load_styles()
    heart, sky = styles["af_heart"], styles["af_sky"]
    mix = styles["af_heart(3)+af_sky(1)"]
    expected = 0.75 * heart.table.astype(np.float32) + 0.25 * sky.table.astype(np.float32)
    np.testing.assert_allclose(mix.table, expected, atol=1e-3)
    np.testing.assert_allclose(mix.norms, 0.75 * heart.norms + 0.25 * sky.norms, rtol=1e-5)
    assert styles["af_heart(3)+af_sky(1)"] is mix, "mixes are cached"
    assert len(styles) == 28, "a mix is not a voice"


def test_the_cache_of_mixes_is_bounded_and_forgets_the_one_that_was_used_least_recently() -> None:
    styles = load_styles()
    names = [f"af_heart({number})+af_sky(1)" for number in range(1, MAX_CACHED_MIXES + 1)]
    mixes = [styles[name] for name in names]
    assert styles[names[0]] is mixes[0]
    styles["af_heart(1)+af_nova(1)"]
    assert styles[names[0]] is mixes[0]
    assert styles[names[1]] is not mixes[1]


def test_a_packed_voice_unpacks_to_itself() -> None:
    style = load_styles()["af_heart"]
    again = unpack_style(pack_style(style))
    np.testing.assert_array_equal(again.table, style.table)
    np.testing.assert_array_equal(again.norms, style.norms)


def test_statistics_follow_the_length_between_the_two_that_are_packed() -> None:
    style = load_styles()["af_heart"]
    short, long = style.norms
    rows = (0, SHORT_ROW, 20, LONG_ROW, 509)
    found = {row: style.norms_of_row(row) for row in rows}
    assert all(norms.shape == (1, NORM_CHANNELS, 1) for norms in found.values())
    for row in (0, SHORT_ROW):
        np.testing.assert_allclose(found[row].ravel(), short, rtol=1e-5)
    for row in (LONG_ROW, 509):
        np.testing.assert_allclose(found[row].ravel(), long, rtol=1e-5)
    share = (shortness(20) - shortness(LONG_ROW)) / (shortness(SHORT_ROW) - shortness(LONG_ROW))
    np.testing.assert_allclose(found[20].ravel(), long + share * (short - long), rtol=1e-4, atol=1e-5)


def test_an_altered_voice_is_refused_by_name(altered: Path) -> None:
    assert len(load_styles(altered)) == 2
    path = altered / "af_aoede.f16"
    path.write_bytes(path.read_bytes()[:-2] + b"\0\1")
    with pytest.raises(ModelNotUsable, match=r"af_aoede\.f16"):
        load_styles(altered)


def test_a_missing_voice_is_refused_by_name(altered: Path) -> None:
    (altered / "af_alloy.f16").unlink()
    with pytest.raises(ModelNotUsable, match=r"af_alloy\.f16"):
        load_styles(altered)


@real_voice
def test_a_mix_speaks_and_sounds_like_none_of_its_voices(speaker: Speaker) -> None:
    spoken = {}
    for voice in ("af_heart", "am_michael", "af_heart(2)+am_michael(1)"):
        spoken[voice] = np.concatenate(speaker.say("Hello there.", voice=voice))
        assert np.isfinite(spoken[voice]).all()
        assert np.abs(spoken[voice]).max() > 0.05, voice
    heart, michael, mix = spoken.values()
    assert mix.shape != heart.shape or not np.allclose(mix, heart, atol=0.01)
    assert mix.shape != michael.shape or not np.allclose(mix, michael, atol=0.01)
