"""Makes the packed voices from the published ones: `python -m realtime_tts.engine.models.kokoro.make_voices DIR`.

Run by a maintainer when the voice pack or the weights change, never by the server; 2 minutes on 2 cores.  DIR is
`voices/` of the unpacked npm package `kokoro-js` 1.2.1 (`npm pack kokoro-js@1.2.1`): one file a voice, float32
[510, 1, 256].
"""

import hashlib
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import numpy.typing as npt
import onnx
from onnx.utils import extract_model

from realtime_tts.engine.api import SynthesisRequest
from realtime_tts.engine.models.kokoro.cut import (
    F0,
    FRONT_INPUTS,
    FRONT_OUTPUTS,
    NOISE,
    TEXT_FEATURES,
    extract_vocoder,
)
from realtime_tts.engine.models.kokoro.frames import runs_of, unpack_frames
from realtime_tts.engine.models.kokoro.front import FrontStage
from realtime_tts.engine.models.kokoro.phonemes import Pronouncer
from realtime_tts.engine.models.kokoro.sessions import load_session
from realtime_tts.engine.models.kokoro.steady import NORM_CHANNELS, NORMS, show_norms
from realtime_tts.engine.models.kokoro.styles import CHECKSUMS_NAME, SUFFIX, VOICES_DIR, Style, is_english, pack_style
from realtime_tts.engine.models.kokoro.weights import MODEL_NAME, find_weights
from realtime_tts.engine.stage import StageInput, host_array
from realtime_tts.errors import ModelNotUsable

SOURCE_SHAPE = (510, 1, 256)
AF_HEART_SHA256 = "d583ccff3cdca2f7fae535cb998ac07e9fcb90f09737b9a41fa2734ec44a8f0b"
"""Of the float32 file: proof that DIR is the pack this server was tuned and judged with."""

# Everyday speech, of several lengths, questions among it.  None of them is in the benchmark.
SENTENCES = (
    "Good morning, this is your assistant speaking.",
    "I have found three results that may be useful to you.",
    "What would you like to do next?",
    "Please wait a moment while I check that for you, and then we can go on.",
)

Norms = npt.NDArray[np.float32]
Measure = Callable[[str, Style], Norms]


def make_voices(source: Path, target: Path, measure: Measure) -> list[str]:
    """Packs every English voice of `source` into `target`, with checksums.  Returns their names."""
    found = hashlib.sha256((source / "af_heart.bin").read_bytes()).hexdigest()
    if found != AF_HEART_SHA256:
        raise ModelNotUsable(f"{source / 'af_heart.bin'} has SHA-256 {found}, not {AF_HEART_SHA256}")
    target.mkdir(parents=True, exist_ok=True)
    sums = []
    names = sorted(path.stem for path in source.glob("*.bin") if is_english(path.stem))
    for name in names:
        table = np.fromfile(source / f"{name}.bin", dtype="<f4").reshape(SOURCE_SHAPE)[:, 0].astype(np.float16)
        unmeasured = Style(table, np.zeros((1, NORM_CHANNELS, 1), dtype=np.float32))
        packed = pack_style(Style(table, measure(name, unmeasured)))
        (target / (name + SUFFIX)).write_bytes(packed)
        sums.append(f"{hashlib.sha256(packed).hexdigest()}  {name}{SUFFIX}\n")
    (target / CHECKSUMS_NAME).write_text("".join(sums), encoding="ascii")
    return names


def make_measure(threads: int) -> Measure:
    """Loads the model as it was published, and listens to what its normalisations see while a voice speaks."""
    with tempfile.TemporaryDirectory() as temporary:
        whole, front, vocoder = (Path(temporary) / name for name in (MODEL_NAME, "front.onnx", "vocoder.onnx"))
        find_weights().write_to(whole)
        extract_model(whole, front, FRONT_INPUTS, FRONT_OUTPUTS, check_model=False)
        published = extract_vocoder(whole, vocoder)
        show_norms(published)
        onnx.save(published, vocoder)
        front_session = load_session(front, threads=threads)
        session = load_session(vocoder, threads=threads)
    pronouncer = Pronouncer()

    def measure(voice: str, style: Style) -> Norms:
        stage = FrontStage(front_session, pronouncer.read, {voice: style})
        means = []
        for text in SENTENCES:
            request = SynthesisRequest(request_id=text, stream_id="", text=text, voice=voice)
            frames = host_array(stage.run([StageInput(request)])[0].values).astype(np.float32)
            (run,) = runs_of(frames)
            features, f0, noise = unpack_frames(frames)
            feed = {TEXT_FEATURES: features, F0: f0, NOISE: noise, "style": style.row(run.style)}
            means.append(session.run([NORMS], feed)[0])
        mean: Norms = np.mean(means, axis=0).astype(np.float32)
        return mean

    return measure


if __name__ == "__main__":
    made = make_voices(Path(sys.argv[1]), VOICES_DIR, make_measure(threads=2))
    sys.stdout.write(f"wrote {', '.join(made)}\n")
