"""A test model with set costs: exact, deterministic, speech-shaped tones, for tests and for load without a GPU.

It has the shape of a codec language model: a Talker that makes one codec frame a step for every row of a batch, and a
Code2Wav that keeps state; optionally a Thinker whose answer they speak, as a stage before them or in front of the
engine.  Its costs are waited, not computed, so that a small machine can simulate a large one.
"""

from collections.abc import Callable

from realtime_tts.clock import sleep_s
from realtime_tts.engine.api import ModelInfo, Voice
from realtime_tts.engine.models.spec import ModelSpec
from realtime_tts.engine.models.tone.stages import (
    TOKEN_CHARACTERS,
    Code2Wav,
    Talker,
    Thinker,
    ThinkerCosts,
    ToneCosts,
)
from realtime_tts.engine.models.tone.waveform import (
    FRAMES_PER_CHARACTER,
    FRAMES_PER_TOKEN,
    SAMPLE_RATE_HZ,
    SAMPLES_PER_FRAME,
    answer,
    answer_codes,
    codes,
    decode,
    render,
    words,
)
from realtime_tts.engine.scheduling.chunking import ChunkPlan
from realtime_tts.engine.scheduling.cost_model import LinearCost, PipelineCosts, UpstreamCosts
from realtime_tts.engine.stage import Model, Stage, StageSpec
from realtime_tts.engine.thinking import tone as tone_thinking
from realtime_tts.engine.thinking.thinker import Answering
from realtime_tts.engine.voice_names import OPENAI_VOICES, QWEN3_TTS_VOICES
from realtime_tts.errors import ModelNotUsable

__all__ = [
    "FRAMES_PER_CHARACTER",
    "FRAMES_PER_TOKEN",
    "PROFILES",
    "SAMPLES_PER_FRAME",
    "SAMPLE_RATE_HZ",
    "VOICES",
    "Code2Wav",
    "Talker",
    "Thinker",
    "ThinkerCosts",
    "ToneCosts",
    "answer",
    "answer_codes",
    "build",
    "codes",
    "decode",
    "info",
    "render",
    "words",
]

VOICES = (Voice("tone_low", "en-US"), Voice("tone_high", "en-US"))
_HIGH = {"alloy", "coral", "marin", "nova", "sage", "shimmer", "vivian", "serena", "ono_anna", "sohee"}
VOICE_ALIASES = {name: "tone_high" if name in _HIGH else "tone_low" for name in (*OPENAI_VOICES, *QWEN3_TTS_VOICES)}

PROFILES = {
    "free": (ToneCosts(), 64),
    "h20": (ToneCosts(0.011, 0.00035, 0.030, 0.015, 0.00130, context_frames=25), 1),
    "h200": (ToneCosts(0.009, 0.00103, 0.012, 0.008, 0.00025, context_frames=25), 4),
    "h200_stateful": (ToneCosts(0.009, 0.00103, 0.012, 0.004, 0.00012), 16),
    "graph": (ToneCosts(0.008, 0.00025, 0.005, 0.003, 0.00010), 16),
    "custom_voice": (ToneCosts(0.008, 0.00025, 0.005, 0.008, 0.00025, context_frames=25), 1),
}
"""Costs and Code2Wav's batch of real devices, by public measurements: an H20 with voice clone (~25 audio-s/s), an H200
as vLLM-Omni has it (~69), the same with a vocoder that keeps state, and everything in CUDA graphs (~288).
`custom_voice` is the Talker in CUDA graphs before the vocoder of `h200`, one request at a time: Code2Wav is the
bottleneck (~97)."""


_ANSWER_FIELDS = frozenset({"seed", "temperature", "top_k", "top_p", "repetition_penalty", "max_new_tokens"})
"""The words of an answer are not in the request's text, so they have no position in it."""


def wait_cost_s(seconds: float) -> None:
    if seconds > 0.0:  # sleeping for 0 s gives the processor to other processes, which costs up to a millisecond
        sleep_s(seconds)


def info(*, reads_ahead: bool = False, thinker: bool = False, answers: bool = False) -> ModelInfo:
    return ModelInfo(
        name="tone",
        sample_rate_hz=SAMPLE_RATE_HZ,
        samples_per_frame=SAMPLES_PER_FRAME,
        voices=VOICES,
        default_voice=VOICES[0].name,
        voice_aliases=VOICE_ALIASES,
        fields=_ANSWER_FIELDS if answers else frozenset({"speed"} if thinker else {"speed", "word_timestamps"}),
        reads_ahead=reads_ahead,
        answers=answers,
        input_modalities=frozenset({"audio", "image"} if answers else ()),
        input_rate_hz=tone_thinking.INPUT_RATE_HZ if answers else None,
        resume_fade_s=0.0,
        resumes_from_codes=not (thinker or answers),  # a Thinker writes the text again from its beginning
    )


def build(
    *,
    profile: str = "free",
    costs: ToneCosts | None = None,
    max_batch: int = 4096,
    decode_batch: int | None = None,
    shared_lane: bool = False,
    replicas: int = 1,
    talker_replicas: int | None = None,
    code2wav_replicas: int | None = None,
    reads_ahead: bool = False,
    thinker: bool = False,
    thinker_costs: ThinkerCosts | None = None,
    answers: bool = False,
    answer_costs: tone_thinking.ThinkerCosts | None = None,
    frames_per_token: float = FRAMES_PER_TOKEN,
    wait_s: Callable[[float], None] = wait_cost_s,
) -> Model:
    """`profile` names costs and batch of `PROFILES`; `costs` and `decode_batch` replace them.

    `shared_lane` puts the stages on one device; `replicas` is the number of Talkers and Code2Wavs, which
    `talker_replicas` and `code2wav_replicas` replace; `reads_ahead` has it speak sentences whose end has not arrived;
    `thinker` has it speak an answer to the text, which a Thinker writes as its first stage; `answers` has it answer
    conversations, by a Thinker of `answer_costs` in front of the engine; `wait_s` is how a step spends its cost.
    """
    talkers, decoders = talker_replicas or replicas, code2wav_replicas or replicas
    if shared_lane and talkers != decoders:
        raise ModelNotUsable("with shared_lane there are as many Talkers as Code2Wavs")
    if profile not in PROFILES:
        raise ModelNotUsable(f"tone has no profile {profile!r}; there are {', '.join(PROFILES)}")
    usual_costs, usual_batch = PROFILES[profile]
    costs = costs or usual_costs
    thinking = thinker_costs or ThinkerCosts()
    specs: tuple[StageSpec, ...] = (
        StageSpec("talker", "talker", max_batch, talkers),
        StageSpec("code2wav", "talker" if shared_lane else "code2wav", decode_batch or usual_batch, decoders),
    )
    stages: dict[str, tuple[Stage, ...]] = {
        "talker": tuple(
            Talker(costs, wait_s, after_thinker=thinker, frames_per_token=frames_per_token) for _ in range(talkers)
        ),
        "code2wav": tuple(Code2Wav(costs, wait_s) for _ in range(decoders)),
    }
    upstream: tuple[UpstreamCosts, ...] = ()
    if thinker:
        specs = (StageSpec("thinker", "talker" if shared_lane and talkers == 1 else "thinker", max_batch), *specs)
        stages["thinker"] = (Thinker(thinking, wait_s),)
        upstream = (
            UpstreamCosts(
                "thinker",
                LinearCost(thinking.base_s, thinking.per_row_s),
                prefill_s=thinking.prefill_s,
                units_per_row=TOKEN_CHARACTERS,
                units_per_frame=1 / FRAMES_PER_CHARACTER,
            ),
        )
    return Model(
        info=info(reads_ahead=reads_ahead, thinker=thinker, answers=answers),
        specs=specs,
        stages=stages,
        chunk_plan=ChunkPlan(sizes=(2, 4, 8, 16, 25), left_context_frames=costs.context_frames),
        costs=PipelineCosts(
            frame=LinearCost(costs.a0_s, costs.b0_s),
            decode=LinearCost(costs.a1_s, costs.b1_s),
            prefill_s=costs.prefill_s,
            upstream=upstream,
        ),
        answering=Answering(
            lambda: tone_thinking.ToneThinker(answer_costs or tone_thinking.ThinkerCosts(), wait_s),
            tone_thinking.ToneChat(),
        )
        if answers
        else None,
    )


MODEL = ModelSpec(name="tone", build=build, info=info)
