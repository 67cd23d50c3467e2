"""The published sampling parameters of Qwen3-TTS."""

from realtime_tts.engine.models.qwen3.sampling import CodeSampling, SamplingParams
from realtime_tts.engine.models.qwen3_tts.config import GenerationConfig


def published_sampling(config: GenerationConfig, seed: int | None = None) -> CodeSampling:
    """The published sampling parameters.  Raises ValueError for invalid ones."""
    talker = SamplingParams(config.temperature if config.do_sample else 0, config.top_k, config.top_p)
    temperature = config.subtalker_temperature if config.subtalker_dosample else 0
    predictor = SamplingParams(temperature, config.subtalker_top_k, config.subtalker_top_p)
    return CodeSampling(talker, predictor, config.repetition_penalty, seed)
