"""Helpers that run requests through a complete model, and the expected audio: codes alone, decoded at once."""

import functools
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from realtime_tts.engine import models
from realtime_tts.engine.api import EngineEvent, Sampling, Submit, SynthesisRequest
from realtime_tts.engine.config import EngineConfig
from realtime_tts.engine.models.qwen3.codec.decoder import Code2Wav
from realtime_tts.engine.models.qwen3.codec.stage import Code2WavStage
from realtime_tts.engine.models.qwen3.sampling import CodeSampling, code_sampling
from realtime_tts.engine.models.qwen3_tts.prompt import ClonedVoice, Speech
from realtime_tts.engine.models.qwen3_tts.stages import TalkerStage
from realtime_tts.engine.models.qwen3_tts.voices import ReadyVoice, VoiceBuilder
from realtime_tts.engine.stage import Model
from realtime_tts.errors import InvalidConfig
from tests.engine.models.qwen3_tts.decoders import make_decoder
from tests.engine.models.qwen3_tts.make_codec import strip
from tests.engine.models.qwen3_tts.make_whole import WHOLE_DECODER, whole_codec_state
from tests.engine.models.qwen3_tts.tiny import Codes, Tiny
from tests.fakes import make_engine, run_to_end, samples_of

GetWhole: TypeAlias = Callable[[str], Path]
QUEUE = EngineConfig(max_wait_s=None)
"""Without refusals: the speed of a tiny model on a busy machine says nothing about capacity."""
OPTIONS: dict[str, Any] = {"slots": 3, "max_len": 192, "threads": 1, "predictor_kv": "cache"}


def build(directory: Path, **options: Any) -> Model:
    return models.build("qwen3_tts", model_dir=directory, **OPTIONS | options)


def ask(number: int, text: str, voice: str = "vivian", **fields: Any) -> SynthesisRequest:
    """A request with the given `seed` and maximum number of `frames`."""
    frames = fields.pop("frames", 6)
    sampling = Sampling(seed=fields.pop("seed", number), max_new_tokens=frames + 1)
    return SynthesisRequest(f"r{number}", f"s{number}", text, voice, sampling=sampling, **fields)


def speak(model: Model, *requests: SynthesisRequest) -> list[EngineEvent]:
    engine, events = make_engine(model, config=QUEUE)
    for request in requests:
        engine.handle(Submit(request))
    run_to_end(engine)
    return events


def sound(events: Sequence[EngineEvent], request_id: str) -> npt.NDArray[np.float32]:
    return np.concatenate([np.empty(0, np.float32), *samples_of(events, request_id)])


def lone_codes(
    tiny: Tiny, request: SynthesisRequest, voice: ClonedVoice | None = None, language: str | None = None
) -> Codes:
    speech = Speech(
        request.text,
        language,
        request.voice if voice is None else None,
        request.instructions,
        voice,
        text_first=voice is None,
    )
    requested = request.sampling
    assert requested.seed is not None
    assert requested.max_new_tokens is not None
    sampling = code_sampling(CodeSampling(), requested, requested.seed)
    return tiny.alone(tiny.prompts.build(speech), sampling, requested.max_new_tokens - 1)


@functools.cache
def _decoder() -> Code2Wav:
    return make_decoder(WHOLE_DECODER, strip(whole_codec_state(), "decoder."), 1)


def decoded(codes: Codes) -> npt.NDArray[np.float32]:
    decoder = _decoder()
    slot = decoder.arena.acquire()
    wave = decoder.decode([slot], [codes])[0]
    decoder.arena.release(slot)
    return wave


def talker_of(model: Model) -> TalkerStage:
    talker = model.stage("talker")
    assert isinstance(talker, TalkerStage)
    return talker


def voices_of(stage: TalkerStage) -> VoiceBuilder:
    assert stage.voices is not None
    return stage.voices


def voice_of(builder: VoiceBuilder, request: SynthesisRequest) -> ReadyVoice:
    """Raises the InvalidConfig of a request without a usable voice."""
    (voice,) = builder.voices([request])
    if isinstance(voice, InvalidConfig):
        raise voice
    return voice


def free_talker_slots(stage: TalkerStage) -> int:
    """The free slots of a stage that has no state of a request."""
    assert not stage._rows
    return stage._talker.free_slots


def free_slots(model: Model) -> tuple[int, int]:
    """The free slots of the Talker and of the decoder, which have no state of a request."""
    decoder = model.stage("code2wav")
    assert isinstance(decoder, Code2WavStage)
    return free_talker_slots(talker_of(model)), decoder.decoder.arena.free
