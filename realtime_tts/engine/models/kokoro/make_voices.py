"""Generator of the packed voices: `python -m realtime_tts.engine.models.kokoro.make_voices DIR`.

Run by a maintainer when the voice pack or the weights change, never by the server; 5 minutes on 2 cores.  DIR is
`voices/` of the unpacked npm package `kokoro-js` 1.2.1 (`npm pack kokoro-js@1.2.1`): one file per voice, float32
[510, 1, 256].
"""

import hashlib
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import onnx

from realtime_tts.engine.api import SynthesisRequest
from realtime_tts.engine.models.kokoro.acoustic import AcousticStage
from realtime_tts.engine.models.kokoro.frames import runs_of, unpack_frames
from realtime_tts.engine.models.kokoro.onnx_rewrite.split_graph import (
    F0,
    NOISE,
    TEXT_FEATURES,
    extract_acoustic,
    extract_vocoder,
)
from realtime_tts.engine.models.kokoro.onnx_rewrite.streaming_inputs import NORM_CHANNELS, NORMS, add_statistics_output
from realtime_tts.engine.models.kokoro.onnx_sessions import load_session
from realtime_tts.engine.models.kokoro.phonemes import Pronouncers
from realtime_tts.engine.models.kokoro.styles import (
    CHECKSUMS_NAME,
    LONG_ROW,
    SHORT_ROW,
    SUFFIX,
    VOICES_DIR,
    Style,
    is_english,
    pack_style,
    shortness,
)
from realtime_tts.engine.models.kokoro.weights import MODEL_NAME, find_weights
from realtime_tts.engine.stage import StageInput, host_array
from realtime_tts.errors import ModelNotUsable

SOURCE_SHAPE = (510, 1, 256)
AF_HEART_SHA256 = "d583ccff3cdca2f7fae535cb998ac07e9fcb90f09737b9a41fa2734ec44a8f0b"
"""Of the float32 file: DIR must be the pack that this server was tuned and evaluated with."""

# Everyday speech of several lengths, with questions.  None of these sentences is in the benchmark.
SENTENCES = (
    "No.",
    "Yes.",
    "Okay.",
    "Hello.",
    "Thank you.",
    "Sure thing.",
    "How are you?",
    "Hello, world.",
    "Yes, of course.",
    "The first sentence is short.",
    "Good morning, this is your assistant speaking.",
    "I have found three results that may be useful to you.",
    "What would you like to do next?",
    "Please wait a moment while I check that for you, and then we can go on.",
)

Norms = npt.NDArray[np.float32]
Measure = Callable[[str, Style], Norms]


def make_voices(source: Path, target: Path, measure: Measure, af_heart_sha256: str = AF_HEART_SHA256) -> list[str]:
    """Packs every English voice of `source` into `target`, with checksums.  Returns their names."""
    found = hashlib.sha256((source / "af_heart.bin").read_bytes()).hexdigest()
    if found != af_heart_sha256:
        raise ModelNotUsable(f"{source / 'af_heart.bin'} has SHA-256 {found}, not {af_heart_sha256}")
    target.mkdir(parents=True, exist_ok=True)
    checksums = []
    names = sorted(path.stem for path in source.glob("*.bin") if is_english(path.stem))
    for name in names:
        table = np.fromfile(source / f"{name}.bin", dtype="<f4").reshape(SOURCE_SHAPE)[:, 0].astype(np.float16)
        unmeasured = Style(table, np.zeros((2, NORM_CHANNELS), dtype=np.float32))
        packed = pack_style(Style(table, measure(name, unmeasured)))
        (target / (name + SUFFIX)).write_bytes(packed)
        checksums.append(f"{hashlib.sha256(packed).hexdigest()}  {name}{SUFFIX}\n")
    (target / CHECKSUMS_NAME).write_text("".join(checksums), encoding="ascii")
    return names


def make_measure(threads: int) -> Measure:
    """Loads the exported model; the returned function measures a voice's normalisation statistics while it speaks."""
    with tempfile.TemporaryDirectory() as temporary:
        whole, acoustic, vocoder = (Path(temporary) / name for name in (MODEL_NAME, "acoustic.onnx", "vocoder.onnx"))
        find_weights().write_to(whole)
        extract_acoustic(whole, acoustic)
        exported = extract_vocoder(whole, vocoder)
        add_statistics_output(exported)
        onnx.save(exported, vocoder)
        acoustic_session = load_session(acoustic, threads=threads)
        vocoder_session = load_session(vocoder, threads=threads)
    pronouncers = Pronouncers()

    def measure(voice: str, style: Style) -> Norms:
        stage = AcousticStage(acoustic_session, pronouncers.read, {voice: style})
        rows, found = [], []
        for text in SENTENCES:
            request = SynthesisRequest(request_id=text, stream_id="", text=text, voice=voice)
            frames = host_array(stage.run([StageInput(request)])[0].values).astype(np.float32)
            (run,) = runs_of(frames)
            features, f0, noise = unpack_frames(frames)
            inputs = {TEXT_FEATURES: features, F0: f0, NOISE: noise, "style": style.row(run.style)}
            rows.append(run.style)
            found.append(vocoder_session.run([NORMS], inputs)[0].reshape(NORM_CHANNELS))
        return fit_norms(rows, np.stack(found))

    return measure


def fit_norms(rows: Sequence[int], found: Norms) -> Norms:
    """The statistics at SHORT_ROW and LONG_ROW, (2, NORM_CHANNELS), by those of sentences, (n, NORM_CHANNELS).

    Within what was measured, so that no variance is negative.
    """
    points = np.array([[1.0, shortness(row)] for row in rows])
    line = np.linalg.lstsq(points, found, rcond=None)[0]
    ends = np.array([[1.0, shortness(row)] for row in (SHORT_ROW, LONG_ROW)]) @ line
    fitted: Norms = np.clip(ends, found.min(axis=0), found.max(axis=0)).astype(np.float32)
    return fitted


if __name__ == "__main__":
    written = make_voices(Path(sys.argv[1]), VOICES_DIR, make_measure(threads=2))
    sys.stdout.write(f"wrote {', '.join(written)}\n")
