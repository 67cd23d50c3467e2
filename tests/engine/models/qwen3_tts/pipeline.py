"""What a request must sound like: its codes from a Talker of its own, its sound from those decoded all at once."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
from msgspec import convert

from realtime_tts.engine import models
from realtime_tts.engine.api import EngineEvent, Sampling, Submit, SynthesisRequest
from realtime_tts.engine.config import EngineConfig
from realtime_tts.engine.models.qwen3_tts.code2wav import Code2Wav
from realtime_tts.engine.models.qwen3_tts.codec_config import CodecDecoderConfig
from realtime_tts.engine.models.qwen3_tts.prompt import ClonedVoice, Speech
from realtime_tts.engine.models.qwen3_tts.sampling import CodeSampling
from realtime_tts.engine.models.qwen3_tts.stages import Code2WavStage, TalkerStage, code_sampling
from realtime_tts.engine.stage import Model
from tests.engine.models.qwen3_tts.make_codec import strip
from tests.engine.models.qwen3_tts.make_whole import WHOLE_DECODER, whole_codec_state
from tests.engine.models.qwen3_tts.tiny import Codes, Tiny
from tests.fakes import make_engine, run_to_end, samples_of

GetWhole: TypeAlias = Callable[[str], Path]
QUEUE = EngineConfig(max_wait_s=None)
"""Nobody is refused: a tiny model on a busy machine is no measure of places."""


def build(directory: Path, **options: Any) -> Model:
    return models.build("qwen3_tts", model_dir=directory, **{"slots": 3, "max_len": 192, "threads": 1, **options})


def ask(number: int, text: str, voice: str = "vivian", **fields: Any) -> SynthesisRequest:
    """A request; `seed` and `frames` (at most so many) are of its sampling."""
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
    wish = request.sampling
    assert wish.seed is not None
    assert wish.max_new_tokens is not None
    sampling = code_sampling(CodeSampling(), wish, wish.seed)
    return tiny.alone(tiny.prompts.build(speech), sampling, wish.max_new_tokens - 1)


def decoded(codes: Codes) -> npt.NDArray[np.float32]:
    decoder = Code2Wav.from_state(
        convert(WHOLE_DECODER, CodecDecoderConfig), strip(whole_codec_state(), "decoder."), "cpu", 1
    )
    return decoder.decode([decoder.arena.acquire()], [codes])[0]


def free_slots(model: Model) -> tuple[int, int]:
    """Of the Talker and of the decoder."""
    talker, decoder = model.stages
    assert isinstance(talker, TalkerStage)
    assert isinstance(decoder, Code2WavStage)
    return talker.free_slots, decoder.decoder.arena.free
