"""A voice gives the x-vector that the reference gives it."""

from pathlib import Path

import msgspec
import numpy as np
import pytest

torch = pytest.importorskip("torch")

from realtime_tts.engine.models.qwen3_tts.codec_config import SpeakerEncoderConfig  # noqa: E402
from realtime_tts.engine.models.qwen3_tts.speaker_encoder import SpeakerEncoder  # noqa: E402
from realtime_tts.errors import ModelNotUsable  # noqa: E402
from tests.engine.models.qwen3_tts import make_codec as make  # noqa: E402

CONFIG = msgspec.convert(make.SPEAKER, SpeakerEncoderConfig)
GOLDENS = np.load(Path(__file__).parent / "goldens_codec" / "speaker.npz")
VOICES = {name: samples for name, samples in make.recordings().items() if f"{name}_x_vector" in GOLDENS}


@pytest.fixture(scope="module")
def encoder() -> SpeakerEncoder:
    return SpeakerEncoder.from_state(CONFIG, make.strip(make.speaker_state(), "speaker_encoder."), "cpu")


@pytest.mark.parametrize("name", VOICES)
def test_x_vectors_are_those_of_the_reference(encoder: SpeakerEncoder, name: str) -> None:
    vector = encoder.encode(VOICES[name]).numpy()
    assert vector.dtype == np.float32
    assert np.abs(vector - GOLDENS[f"{name}_x_vector"]).max() <= 1e-5


def test_the_goldens_tell_voices_apart() -> None:
    vectors = np.stack([GOLDENS[f"{name}_x_vector"] for name in VOICES])
    apart = np.abs(vectors[:, None] - vectors[None]).max(-1) + np.eye(len(vectors))
    assert len(vectors) >= 4
    assert apart.min() > 1e-2


def test_the_shortest_voice_is_as_short_as_mirroring_allows(encoder: SpeakerEncoder) -> None:
    assert encoder.min_samples == make.MIN_SPEAKER_SAMPLES
    assert encoder.encode(make.speech(1, 1)[: encoder.min_samples]).isfinite().all()
    with pytest.raises(ValueError, match="1280 samples"):
        encoder.encode(make.speech(1, 1)[: encoder.min_samples - 1])
    with pytest.raises(ValueError, match="1280 samples"):
        encoder.encode(make.speech(1, 1)[None])


@pytest.mark.parametrize("samples", [np.zeros(24_000, np.float32), np.ones(24_000, np.float32)])
def test_silence_has_an_x_vector_too(encoder: SpeakerEncoder, samples: np.ndarray) -> None:
    assert encoder.encode(samples).isfinite().all()


@pytest.mark.parametrize("key", sorted(make.strip(make.speaker_state(), "speaker_encoder.")))
def test_every_weight_is_needed_and_heard(encoder: SpeakerEncoder, key: str) -> None:
    state = make.strip(make.speaker_state(), "speaker_encoder.")
    del state[key]
    with pytest.raises(ModelNotUsable, match=key.replace(".", r"\.")):
        SpeakerEncoder.from_state(CONFIG, state, "cpu")
    state = make.strip(make.speaker_state(), "speaker_encoder.")
    state[key] = state[key].flip(0)
    other = SpeakerEncoder.from_state(CONFIG, state, "cpu").encode(VOICES["a_frame"])
    softmax_ignores = key == "asp.conv.bias"  # the same for every moment: it cannot weigh one against another
    assert torch.allclose(other, encoder.encode(VOICES["a_frame"]), atol=1e-5) == softmax_ignores


def test_a_weight_that_is_not_known_is_named() -> None:
    state = make.strip(make.speaker_state(), "speaker_encoder.") | {"fc.scale": torch.zeros(1)}
    with pytest.raises(ModelNotUsable, match=r"fc\.scale"):
        SpeakerEncoder.from_state(CONFIG, state, "cpu")


def test_every_shape_that_is_published_is_taken() -> None:
    published = SpeakerEncoderConfig(enc_dim=2048)
    fields = {name: getattr(published, name) for name in published.__slots__}
    state = {key: torch.empty(shape, device="meta") for key, shape in make.speaker_shapes(fields).items()}
    SpeakerEncoder.from_state(published, make.strip(state, "speaker_encoder."), "meta")


# -- Several at once --------------------------------------------------------------------------------------------------


def test_several_in_one_pass_have_the_x_vectors_that_each_has_alone(encoder: SpeakerEncoder) -> None:
    least, whole = encoder.min_samples, make.speech(2.0, 1)
    recordings = [whole[:samples] for samples in (least, least + 1, least + 255, least + 256, 7000, 24_001, len(whole))]
    vectors = encoder.encode_all([*recordings, *VOICES.values()])
    for vector, recording in zip(vectors, [*recordings, *VOICES.values()], strict=True):
        assert torch.allclose(vector, encoder.encode(recording), rtol=0.0, atol=2e-6)


def test_several_of_one_length_too(encoder: SpeakerEncoder) -> None:
    recordings = [make.speech(1.0, seed) for seed in range(3)]
    for vector, recording in zip(encoder.encode_all(recordings), recordings, strict=True):
        assert torch.allclose(vector, encoder.encode(recording), rtol=0.0, atol=2e-6)


def test_a_longer_neighbour_is_not_heard(encoder: SpeakerEncoder) -> None:
    loud, quiet = make.speech(2.0, 1), 0.01 * make.speech(2.0, 5)
    beside_loud, beside_quiet = (encoder.encode_all([VOICES["a_frame"], other])[0] for other in (loud, quiet))
    assert torch.equal(beside_loud, beside_quiet)
