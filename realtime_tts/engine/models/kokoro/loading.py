"""Loading of the embedded voice: prepared weights, stages, and costs measured on this machine."""

import math
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from realtime_tts.clock import Clock, MonotonicClock
from realtime_tts.engine.api import ModelInfo, SynthesisRequest
from realtime_tts.engine.models.kokoro.acoustic import AcousticStage
from realtime_tts.engine.models.kokoro.frames import SAMPLE_RATE_HZ, SAMPLES_PER_FRAME
from realtime_tts.engine.models.kokoro.ipa import IPA_SYMBOLS
from realtime_tts.engine.models.kokoro.onnx_rewrite.prepare_model import prepared_model, user_cache_dir
from realtime_tts.engine.models.kokoro.onnx_sessions import load_session, return_free_memory
from realtime_tts.engine.models.kokoro.phonemes import Pronouncers
from realtime_tts.engine.models.kokoro.styles import Styles, load_styles, voices_of
from realtime_tts.engine.models.kokoro.unmodified import SampleStage, WholeGraphStage, load_unmodified
from realtime_tts.engine.models.kokoro.vocoder import CONTEXT_FRAMES, VocoderStage
from realtime_tts.engine.models.kokoro.voice_aliases import VOICE_ALIASES
from realtime_tts.engine.models.kokoro.weights import find_weights
from realtime_tts.engine.scheduling.chunking import ChunkPlan
from realtime_tts.engine.scheduling.cost_model import LinearCost, PipelineCosts
from realtime_tts.engine.stage import Model, Stage, StageInput, StageOutput, StageSpec
from realtime_tts.errors import ModelNotUsable

DEFAULT_VOICE = "af_heart"
MAX_THREADS = 4
SPECS = (StageSpec("acoustic", "cpu"), StageSpec("code2wav", "cpu"))
# Slices of sound have their own lane: the next sentence is computed on the CPU's while this one is sent.
UNMODIFIED_SPECS = (StageSpec("whole_graph", "cpu"), StageSpec("code2wav", "samples"))
# Context is cheap, because the costly part of the vocoder gets only 3 frames of it before a chunk and 1 after.  The
# ramp: on two slow threads a decode takes 40 ms plus 8 per frame, so that each chunk is ready in time; at the tightest
# a third is to spare, 40 + (16 + 4) * 8 = 200 ms of work while 12 * 25 = 300 ms play.  More than 60 gains nothing.
CHUNK_PLAN = ChunkPlan(
    sizes=(12, 16, 24, 40, 60),
    left_context_frames=CONTEXT_FRAMES[0],
    right_context_frames=CONTEXT_FRAMES[1],
    context_cost=0.3,
)
UNMODIFIED_CHUNK_PLAN = replace(CHUNK_PLAN, left_context_frames=0, right_context_frames=0)
"""Slices of finished sound need no context."""
NOMINAL_STREAMS = 4
"""Capacity of two cores (RTF 0.21)."""
UNMODIFIED_NOMINAL_STREAMS = 2
"""Whole sentences by the exported graph: 1 / 1.58 of the streams (bench/RESULTS.md)."""
DEVIATION_S = 0.03
"""How far decodes of 130 ms deviate from their prediction on a bad day; without it a single listener has gaps."""
FRAMES_PER_ROW = 160.0
"""An average sentence: the acoustic stage computes all of its frames in one launch."""
WARM_UP_TEXT = "Hello there, and welcome: this is a sentence of usual length."
MEASURED_FRAMES = (12, 40)
"""Chunks whose decoding is measured at loading: the cost per frame differs fourfold between machines, and the first
request would be scheduled by a guess."""
RESUME_FADE_S = 0.005
"""A sentence that is made again has the same length, and other chunks with slightly different samples."""
MEASUREMENTS = 1
SAFETY_FACTOR = 1.6
"""Applied to these measurements until steps of real requests replace them: at loading nothing else used the machine,
and the player of the speech often runs on the same one."""


def info() -> ModelInfo:
    """The model's capabilities, without loading its weights.  Raises ModelNotUsable."""
    return _info(load_styles(), rewrite=True)


def build(
    *,
    threads: int | None = None,
    lanes: int | None = None,
    model_dir: Path | None = None,
    cache_dir: Path | None = None,
    rewrite: bool = True,
    progress: Callable[[str], None] = lambda line: None,
) -> Model:
    """Loads the voice and speaks a warm-up sentence, so that the first request is as fast as the others.

    `threads` is how many cores one computation may use, `lanes` how many computations there are at once.  `model_dir`
    contains other weights of the same layout as `model.onnx`.  `cache_dir` keeps the prepared model (default: the
    user's cache).  `rewrite=False` runs the exported graph without our passes, a whole sentence at a time, for
    comparison: slower, and without word timestamps.
    `progress` receives a line of text before each slow step.  Raises ModelNotUsable.
    """
    threads, lanes = division_of(os.cpu_count() or 1, threads, lanes)
    styles, weights = load_styles(), find_weights(model_dir)
    pairs: list[tuple[Stage, Stage]]
    if rewrite:
        pair, plan, nominal_streams = SPECS, CHUNK_PLAN, NOMINAL_STREAMS
        with prepared_model(weights, cache_dir or user_cache_dir(), progress) as graphs:
            acoustics = _sessions(graphs.acoustic, threads, lanes)
            vocoders = _sessions(graphs.vocoder, threads, lanes)
        pairs = [
            (AcousticStage(acoustic, Pronouncers().read, styles), VocoderStage(vocoder, styles))
            for acoustic, vocoder in zip(acoustics, vocoders, strict=True)
        ]
    else:
        pair, plan, nominal_streams = UNMODIFIED_SPECS, UNMODIFIED_CHUNK_PLAN, UNMODIFIED_NOMINAL_STREAMS
        whole = load_unmodified(weights, threads=threads)
        pairs = [(WholeGraphStage(whole, Pronouncers().read, styles), SampleStage()) for _ in range(lanes)]
    costs = _measure(*pairs[0], plan, MonotonicClock())
    return_free_memory()
    specs = tuple(replace(spec, replicas=lanes) for spec in pair)
    stages = {spec.name: tuple(each[index] for each in pairs) for index, spec in enumerate(specs)}
    return Model(_info(styles, rewrite=rewrite), specs, stages, plan, costs, nominal_streams)


def division_of(cores: int, threads: int | None, lanes: int | None) -> tuple[int, int]:
    """Threads of one computation, and computations at once.  Raises ModelNotUsable.

    A lone listener waits least with all of a few cores in one computation; a computation gains little from more.
    """
    if lanes is None:
        lanes = max(1, cores // MAX_THREADS) if threads is None else 1
    if lanes < 1:
        raise ModelNotUsable(f"lanes must be at least 1, got {lanes}")
    return max(1, min(cores // lanes, MAX_THREADS)) if threads is None else threads, lanes


def _sessions(path: Path, threads: int, lanes: int) -> list[Any]:
    """A session for each lane.  With one thread they share it: it then computes in the thread of its caller."""
    count = 1 if threads == 1 else lanes
    sessions = [load_session(path, threads=threads) for _ in range(count)]
    return sessions * (lanes // count)


def _info(styles: Styles, *, rewrite: bool) -> ModelInfo:
    fields = {"speed", "pronunciations"} | ({"word_timestamps"} if rewrite else set())
    return ModelInfo(
        name="kokoro",
        sample_rate_hz=SAMPLE_RATE_HZ,
        samples_per_frame=SAMPLES_PER_FRAME,
        voices=voices_of(styles),
        default_voice=DEFAULT_VOICE,
        voice_aliases=VOICE_ALIASES,
        mixes_voices=True,
        fields=frozenset(fields),
        ipa_symbols=IPA_SYMBOLS,
        resume_fade_s=RESUME_FADE_S,
    )


def _measure(first: Stage, last: Stage, plan: ChunkPlan, clock: Clock) -> PipelineCosts:
    """The cost of a sentence and its chunks on this machine: the best of a few runs, the first of which warms up."""
    request = SynthesisRequest(request_id="warm-up", stream_id="warm-up", text=WARM_UP_TEXT, voice=DEFAULT_VOICE)

    def timed(stage: Stage, row: StageInput) -> tuple[float, StageOutput]:
        began_s = clock.now_s()
        (output,) = stage.run([row])
        return clock.now_s() - began_s, output

    best_s = [math.inf] * (1 + len(MEASURED_FRAMES))
    for _ in range(1 + MEASUREMENTS):
        first_s, output = timed(first, StageInput(request))
        first.release(request.request_id)
        times_s = [first_s]
        for frames in MEASURED_FRAMES:
            chunk = plan.chunk(decoded=8, frames=frames, available=len(output.values), complete=True)
            window = output.values[chunk.context_start : chunk.context_end]
            times_s.append(timed(last, StageInput(request, window, chunk))[0])
            last.release(request.request_id)
        best_s = [min(pair) for pair in zip(best_s, times_s, strict=True)]
    prefill_s, short_s, long_s = best_s
    slope_s = max(0.0, long_s - short_s) / (MEASURED_FRAMES[1] - MEASURED_FRAMES[0])
    base_s = max(0.0, short_s - slope_s * (MEASURED_FRAMES[0] + plan.context_frames))
    return PipelineCosts(
        frame=LinearCost(0.0, 0.0),
        decode=LinearCost(SAFETY_FACTOR * base_s, SAFETY_FACTOR * slope_s),
        prefill_s=SAFETY_FACTOR * prefill_s,
        frames_per_row=FRAMES_PER_ROW,
        deviation_s=DEVIATION_S,
    )
