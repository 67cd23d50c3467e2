"""Tests of the generator of the packed voices, which accepts only the known voice pack."""

import hashlib
from pathlib import Path

import numpy as np
import pytest

from realtime_tts.engine.models.kokoro import make_voices
from realtime_tts.engine.models.kokoro.styles import Style, load_styles, shortness
from realtime_tts.errors import ModelNotUsable
from tests.engine.models.kokoro.conftest import real_voice


def pack(directory: Path) -> Path:
    for name in ("af_heart", "bf_emma", "jf_alpha"):
        np.linspace(-1, 1, 510 * 256, dtype="<f4").reshape(510, 1, 256).tofile(directory / f"{name}.bin")
    return directory


def zero_norms(voice: str, style: Style) -> make_voices.Norms:
    return np.zeros_like(style.norms)


def test_another_pack_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelNotUsable, match=r"af_heart\.bin has SHA-256"):
        make_voices.make_voices(pack(tmp_path), tmp_path / "out", zero_norms)


def test_the_english_voices_are_packed_and_can_be_loaded(tmp_path: Path) -> None:
    source = pack(tmp_path)
    digest = hashlib.sha256((source / "af_heart.bin").read_bytes()).hexdigest()
    assert make_voices.make_voices(source, tmp_path / "out", zero_norms, digest) == ["af_heart", "bf_emma"]
    table = load_styles(tmp_path / "out")["bf_emma"].table.astype(np.float32)
    np.testing.assert_allclose(table.ravel(), np.linspace(-1, 1, 510 * 256), atol=5e-4)


def test_statistics_are_fitted_within_what_was_measured() -> None:
    rows = [3, 5, 12, 30, 69]
    slope = np.array([1.0, -2.0, 0.0])
    found = np.stack([10 + slope * shortness(row) for row in rows]).astype(np.float32)
    np.testing.assert_allclose(make_voices.fit_norms(rows, found), found[[0, -1]], rtol=1e-5)
    outlier = found.copy()
    outlier[2] = 0.0
    fitted = make_voices.fit_norms(rows, outlier)
    assert (fitted >= outlier.min(axis=0)).all()
    assert (fitted <= outlier.max(axis=0)).all()


@pytest.mark.slow
@real_voice
def test_the_packed_statistics_are_those_of_the_voice() -> None:
    style = load_styles()["af_heart"]
    measured = make_voices.make_measure(threads=2)("af_heart", style)
    assert np.corrcoef(measured.ravel(), style.norms.ravel())[0, 1] > 0.999
