"""The x-vectors of voices equal those of the reference."""

from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt
import pytest

torch = pytest.importorskip("torch")

from torch import Tensor  # noqa: E402

from realtime_tts.engine.models.qwen3_tts.codec_config import SpeakerEncoderConfig  # noqa: E402
from realtime_tts.engine.models.qwen3_tts.speaker_encoder import SpeakerEncoder  # noqa: E402
from realtime_tts.errors import ModelNotUsable  # noqa: E402
from tests.engine.models.qwen3_tts import make_codec as make  # noqa: E402

CONFIG = msgspec.convert(make.SPEAKER, SpeakerEncoderConfig)
GOLDENS = np.load(Path(__file__).parent / "goldens_codec" / "speaker.npz")
VOICES = {name: samples for name, samples in make.recordings().items() if f"{name}_x_vector" in GOLDENS}
CPU = torch.device("cpu")


def state() -> dict[str, Any]:
    return make.strip(make.speaker_state(), "speaker_encoder.")


@pytest.fixture(scope="module")
def encoder() -> SpeakerEncoder:
    return SpeakerEncoder.from_state(CONFIG, state(), CPU)


def encode(encoder: SpeakerEncoder, samples: npt.NDArray[np.float32]) -> Tensor:
    return encoder.encode([samples])[0]


def test_x_vectors_equal_those_of_the_reference(encoder: SpeakerEncoder) -> None:
    for name, samples in VOICES.items():
        vector = encode(encoder, samples).numpy()
        assert vector.dtype == np.float32
        assert np.abs(vector - GOLDENS[f"{name}_x_vector"]).max() <= 1e-5, name


def test_the_goldens_differ_from_each_other() -> None:
    vectors = np.stack([GOLDENS[f"{name}_x_vector"] for name in VOICES])
    distances = np.abs(vectors[:, None] - vectors[None]).max(-1) + np.eye(len(vectors))
    assert len(vectors) >= 4
    assert distances.min() > 1e-2


def test_a_recording_needs_the_length_that_reflection_needs(encoder: SpeakerEncoder) -> None:
    assert encoder.min_samples == make.MIN_SPEAKER_SAMPLES
    assert encode(encoder, make.speech(1, 1)[: encoder.min_samples]).isfinite().all()
    for invalid in (make.speech(1, 1)[: encoder.min_samples - 1], make.speech(1, 1)[None]):
        with pytest.raises(ValueError, match="1280 samples"):
            encode(encoder, invalid)


def test_silence_has_a_finite_x_vector(encoder: SpeakerEncoder) -> None:
    for samples in (np.zeros(24_000, np.float32), np.ones(24_000, np.float32)):
        assert encode(encoder, samples).isfinite().all()


def test_every_weight_is_required_and_affects_the_x_vector(encoder: SpeakerEncoder) -> None:
    complete, samples = state(), VOICES["a_frame"]
    expected = encode(encoder, samples)
    for key, value in complete.items():
        missing = {other: tensor for other, tensor in complete.items() if other != key}
        with pytest.raises(ModelNotUsable, match=key.replace(".", r"\.")):
            SpeakerEncoder.from_state(CONFIG, missing, CPU)
        changed = SpeakerEncoder.from_state(CONFIG, complete | {key: value.flip(0)}, CPU)
        softmax_ignores = key == "asp.conv.bias"  # the same for every step, so it weights none above another
        assert torch.allclose(encode(changed, samples), expected, atol=1e-5) == softmax_ignores, key


def test_an_unknown_weight_is_named() -> None:
    with pytest.raises(ModelNotUsable, match=r"fc\.scale"):
        SpeakerEncoder.from_state(CONFIG, state() | {"fc.scale": torch.zeros(1)}, CPU)


def test_every_published_shape_is_read() -> None:
    published = SpeakerEncoderConfig(enc_dim=2048)
    shapes = make.speaker_shapes(msgspec.to_builtins(published))
    weights = {key: torch.empty(shape, device="meta") for key, shape in shapes.items()}
    SpeakerEncoder.from_state(published, make.strip(weights, "speaker_encoder."), torch.device("meta"))


# -- Batches -----------------------------------------------------------------------------------------------------------


def test_recordings_in_one_pass_have_the_x_vectors_of_each_alone(encoder: SpeakerEncoder) -> None:
    least, whole = encoder.min_samples, make.speech(2.0, 1)
    recordings = [whole[:samples] for samples in (least, least + 1, least + 255, least + 256, 7000, 24_001, len(whole))]
    same_length = [make.speech(1.0, seed) for seed in range(3)]
    for batch in ([*recordings, *VOICES.values()], same_length):
        for vector, recording in zip(encoder.encode(batch), batch, strict=True):
            assert torch.allclose(vector, encode(encoder, recording), rtol=0.0, atol=2e-6)


def test_the_content_of_a_longer_recording_affects_no_other(encoder: SpeakerEncoder) -> None:
    loud, quiet = make.speech(2.0, 1), 0.01 * make.speech(2.0, 5)
    beside_loud, beside_quiet = (encoder.encode([VOICES["a_frame"], other])[0] for other in (loud, quiet))
    assert torch.equal(beside_loud, beside_quiet)
