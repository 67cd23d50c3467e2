"""Parts that Qwen3-TTS and Qwen3-Omni share: stacks, sampling, Talker, predictor and codec decoder.  Not a model."""
