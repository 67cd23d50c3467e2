"""The calculated operations of Code2Wav are those that run."""

import pytest

torch = pytest.importorskip("torch")

from msgspec import convert  # noqa: E402
from torch.nn.attention import SDPBackend, sdpa_kernel  # noqa: E402
from torch.utils.flop_counter import FlopCounterMode  # noqa: E402

from bench.qwen3_tts_flops import flops_per_frame  # noqa: E402
from realtime_tts.engine.models.qwen3_tts.codec_config import CodecDecoderConfig  # noqa: E402
from realtime_tts.engine.models.qwen3_tts.memory import CODEC  # noqa: E402
from tests.engine.models.qwen3_tts import make_codec as make  # noqa: E402
from tests.engine.models.qwen3_tts.decoders import make_decoder  # noqa: E402


@pytest.mark.slow
def test_the_calculated_operations_are_those_that_run() -> None:
    config = convert(make.DECODER, CodecDecoderConfig)
    decoder = make_decoder(config, make.strip(make.codec_state(), "decoder."), 2)
    slots = [decoder.arena.acquire() for _ in range(2)]
    for frames, rows in ((1, 1), (4, 2), (25, 1)):
        # The counter does not support the fused attention of a CPU.
        with sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as counter:
            decoder.decode(slots[:rows], [make.codes(frames, 1)] * rows)
        assert counter.get_total_flops() == pytest.approx(flops_per_frame(config, frames) * frames * rows, rel=1e-3)


def test_small_chunks_cost_at_most_a_third_of_windows() -> None:
    for chunk in (1, 2, 4):
        for context in (25, 72):
            assert flops_per_frame(CODEC, chunk, context) >= 3 * flops_per_frame(CODEC, chunk)
