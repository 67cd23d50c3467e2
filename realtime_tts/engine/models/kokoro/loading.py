"""Loading of the embedded voice: prepared weights, stages, and costs measured on this machine."""

import math
import os
from collections.abc import Callable
from pathlib import Path

from realtime_tts.clock import Clock, MonotonicClock
from realtime_tts.engine.api import ModelInfo, SynthesisRequest
from realtime_tts.engine.models.kokoro.cut import cut_model, user_cache_dir
from realtime_tts.engine.models.kokoro.frames import SAMPLE_RATE_HZ, SAMPLES_PER_FRAME
from realtime_tts.engine.models.kokoro.front import FrontStage
from realtime_tts.engine.models.kokoro.ipa import IPA_SYMBOLS
from realtime_tts.engine.models.kokoro.phonemes import Pronouncer
from realtime_tts.engine.models.kokoro.sessions import give_back_memory, load_session
from realtime_tts.engine.models.kokoro.styles import Style, load_styles, voices_of
from realtime_tts.engine.models.kokoro.vocoder import CONTEXT_FRAMES, VocoderStage
from realtime_tts.engine.models.kokoro.weights import find_weights
from realtime_tts.engine.scheduling.chunking import ChunkPlan
from realtime_tts.engine.scheduling.cost_model import LinearCost, PipelineCosts
from realtime_tts.engine.stage import Model, Stage, StageInput, StageOutput, StageSpec

DEFAULT_VOICE = "af_heart"
SPECS = (StageSpec("front", "cpu"), StageSpec("code2wav", "cpu"))
# Context costs little, because the costly part of the vocoder sees 3 frames of it and 1.  The ramp: on two slow threads
# a decode takes 40 ms and 8 more a frame, so that each next chunk is made in time, a third to spare at the
# tightest, 40 + (16 + 4) * 8 = 200 ms of work while 12 * 25 = 300 ms play.  Larger chunks gain nothing beyond 60.
CHUNK_PLAN = ChunkPlan(
    sizes=(12, 16, 24, 40, 60),
    left_context_frames=CONTEXT_FRAMES[0],
    right_context_frames=CONTEXT_FRAMES[1],
    context_cost=0.3,
)
NOMINAL_STREAMS = 4
"""What two cores carry (RTF 0.21)."""
DEVIATION_S = 0.03
"""Decodes of 130 ms miss their prediction by so much on a bad day, and a lone listener hears it without a margin."""
FRAMES_PER_ROW = 160.0
"""A usual sentence: the front makes all of its frames in one launch."""
WARM_UP_TEXT = "Hello there, and welcome: this is a sentence of usual length."
MEASURED_FRAMES = (12, 40)
"""Chunks whose decoding is timed at loading: what a frame costs differs fourfold between machines, and the first
listener would hear a guess."""
MEASUREMENTS = 1
PRUDENCE = 1.6
"""Times what was measured is believed until steps in earnest were: at loading, nobody else used the machine, and the
player of what is spoken often runs on the same."""


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
    """Loads the voice and speaks a sentence of warm-up, so that the first request is as quick as the others.

    `threads` is how many cores one computation may use.  `model_dir` holds other weights of the same layout as
    `model.onnx`.  `cache_dir` keeps the prepared model (default: the user's cache).  `progress` is told, in words,
    of what takes long.  Raises ModelNotUsable.
    """
    threads = min(os.cpu_count() or 1, 4) if threads is None else threads
    styles = load_styles()
    with cut_model(find_weights(model_dir), cache_dir or user_cache_dir(), progress) as halves:
        front = FrontStage(load_session(halves.front, threads=threads), Pronouncer().read, styles)
        vocoder = VocoderStage(load_session(halves.vocoder, threads=threads), styles)
    costs = _measured(front, vocoder, MonotonicClock())
    give_back_memory()
    return Model(_info(styles), SPECS, {"front": (front,), "code2wav": (vocoder,)}, CHUNK_PLAN, costs, NOMINAL_STREAMS)


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


def _measured(front: Stage, vocoder: Stage, clock: Clock) -> PipelineCosts:
    """What a sentence and its chunks cost on this machine: the best of a few times, the first of which warms up."""
    request = SynthesisRequest(request_id="warm-up", stream_id="warm-up", text=WARM_UP_TEXT, voice=DEFAULT_VOICE)

    def timed(stage: Stage, row: StageInput) -> tuple[float, StageOutput]:
        began_s = clock.now_s()
        (output,) = stage.run([row])
        return clock.now_s() - began_s, output

    best_s = [math.inf] * (1 + len(MEASURED_FRAMES))
    for _ in range(1 + MEASUREMENTS):
        front_s, made = timed(front, StageInput(request))
        front.release(request.request_id)
        took_s = [front_s]
        for frames in MEASURED_FRAMES:
            chunk = CHUNK_PLAN.chunk(decoded=8, frames=frames, available=len(made.values), complete=True)
            shown = made.values[chunk.context_start : chunk.context_end]
            took_s.append(timed(vocoder, StageInput(request, shown, chunk))[0])
            vocoder.release(request.request_id)
        best_s = [min(pair) for pair in zip(best_s, took_s, strict=True)]
    prefill_s, short_s, long_s = best_s
    slope_s = max(0.0, long_s - short_s) / (MEASURED_FRAMES[1] - MEASURED_FRAMES[0])
    base_s = max(0.0, short_s - slope_s * (MEASURED_FRAMES[0] + CHUNK_PLAN.context_frames))
    return PipelineCosts(
        frame=LinearCost(0.0, 0.0),
        decode=LinearCost(PRUDENCE * base_s, PRUDENCE * slope_s),
        prefill_s=PRUDENCE * prefill_s,
        frames_per_row=FRAMES_PER_ROW,
        deviation_s=DEVIATION_S,
    )
