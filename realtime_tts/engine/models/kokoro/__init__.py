"""The embedded default voice: Kokoro-82M in int8, English, 28 voices, on the CPU, from package registries alone."""

import os
from collections.abc import Callable
from pathlib import Path

from realtime_tts.engine.api import ModelInfo, SynthesisRequest
from realtime_tts.engine.chunking import ChunkPlan
from realtime_tts.engine.cost import LinearCost, PipelineCosts
from realtime_tts.engine.models.kokoro.cut import cut_model, user_cache_dir
from realtime_tts.engine.models.kokoro.frames import SAMPLE_RATE_HZ, SAMPLES_PER_FRAME
from realtime_tts.engine.models.kokoro.front import FrontStage
from realtime_tts.engine.models.kokoro.ipa import IPA_SYMBOLS
from realtime_tts.engine.models.kokoro.phonemes import Pronouncer
from realtime_tts.engine.models.kokoro.sessions import load_session
from realtime_tts.engine.models.kokoro.styles import Style, load_styles, voices_of
from realtime_tts.engine.models.kokoro.vocoder import VocoderStage
from realtime_tts.engine.models.kokoro.weights import find_weights
from realtime_tts.engine.stage import Model, StageInput

DEFAULT_VOICE = "af_heart"
# The context: beyond 8 + 5 frames little is gained (correlation with the undivided sound 0.98 here, 0.99 at 12 + 8);
# the costly part of the vocoder sees 3 and 1 of them.  The ramp: at 7.5 ms a frame (two slow threads, before
# the vocoder was rewritten) each next chunk was made in time, with 27% to spare at the tightest, (16 + 13) * 7.5 =
# 218 ms of work while 12 * 25 = 300 ms play; at the 3.6 ms of a newer machine, 60%.  Larger chunks are no faster per
# frame beyond 60.
CHUNK_PLAN = ChunkPlan(sizes=(12, 16, 24, 40, 60), left_context_frames=8, right_context_frames=5)
NOMINAL_STREAMS = 4
"""What two cores carry (RTF 0.21)."""
COSTS = PipelineCosts(
    frame=LinearCost(0.0, 0.0),
    decode=LinearCost(0.014, 0.0036),
    prefill_s=0.057,
    frames_per_row=160.0,
    scatter_s=0.03,
)
"""Measured on two cores with AVX512-VNNI that others use too, before the vocoder was rewritten (see generator), so that
they are an upper bound until the engine has seen its own: the front makes a sentence in one launch of 57 ms; decodes of
130 ms miss their prediction by 30 on a bad day, and a lone listener hears it where no margin is left."""


def info() -> ModelInfo:
    """What the voice can do, without loading its weights.  Raises ModelNotUsable."""
    return _info(load_styles())


def build(
    *,
    threads: int | None = None,
    model_dir: Path | None = None,
    cache_dir: Path | None = None,
    progress: Callable[[str], None] = lambda line: None,
) -> Model:
    """Loads the voice and speaks a word of warm-up, so that the first request is as quick as the others.

    `threads` is how many cores one computation may use.  `model_dir` holds other weights of the same layout as
    `model.onnx`.  `cache_dir` keeps the prepared model (default: the user's cache).  `progress` is told, in words,
    of what takes long.  Raises ModelNotUsable.
    """
    threads = min(os.cpu_count() or 1, 4) if threads is None else threads
    styles = load_styles()
    with cut_model(find_weights(model_dir), cache_dir or user_cache_dir(), progress) as halves:
        front = FrontStage(load_session(halves.front, threads=threads), Pronouncer().read, styles)
        vocoder = VocoderStage(load_session(halves.vocoder, threads=threads), styles)
    model = Model(_info(styles), (front, vocoder), CHUNK_PLAN, COSTS, NOMINAL_STREAMS)
    _warm_up(model)
    return model


def _info(styles: dict[str, Style]) -> ModelInfo:
    return ModelInfo(
        name="kokoro",
        sample_rate_hz=SAMPLE_RATE_HZ,
        samples_per_frame=SAMPLES_PER_FRAME,
        voices=voices_of(styles),
        default_voice=DEFAULT_VOICE,
        fields=frozenset({"speed", "word_timestamps", "pronunciations"}),
        ipa_symbols=IPA_SYMBOLS,
    )


def _warm_up(model: Model) -> None:
    front, vocoder = model.stages
    request = SynthesisRequest(request_id="warm-up", stream_id="warm-up", text="Hello there.", voice=DEFAULT_VOICE)
    frames = front.run([StageInput(request)])[0].values
    chunk = next(model.chunk_plan.ramp(len(frames)))
    vocoder.run([StageInput(request, frames=frames[: chunk.context_end], chunk=chunk)])
    front.release(request.request_id)
    vocoder.release(request.request_id)
