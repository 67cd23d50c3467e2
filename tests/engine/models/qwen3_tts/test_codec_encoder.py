"""The codes of recordings equal those of the reference, at every limit of a frame."""

from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt
import pytest

torch = pytest.importorskip("torch")

from realtime_tts.engine.models.qwen3_tts.codec_config import CodecConfig, CodecEncoderConfig  # noqa: E402
from realtime_tts.engine.models.qwen3_tts.codec_encoder import CodecEncoder, EncoderWeights  # noqa: E402
from realtime_tts.engine.models.qwen3_tts.memory import ENCODER_VALUES  # noqa: E402
from realtime_tts.errors import ModelNotUsable  # noqa: E402
from tests.engine.models.qwen3_tts import make_codec as make  # noqa: E402

CONFIG = msgspec.convert(make.CODEC, CodecConfig)
GOLDENS = np.load(Path(__file__).parent / "goldens_codec" / "encoder.npz")
RECORDINGS = make.recordings()
CPU = torch.device("cpu")


def state() -> dict[str, Any]:
    return make.strip(make.codec_state(), "encoder.")


@pytest.fixture(scope="module")
def encoder() -> CodecEncoder:
    return CodecEncoder.from_state(CONFIG, state(), CPU)


def encode(encoder: CodecEncoder, samples: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
    return encoder.encode([samples])[0]


def test_codes_equal_those_of_the_reference(encoder: CodecEncoder) -> None:
    for name, samples in RECORDINGS.items():
        codes = encode(encoder, samples)
        assert codes.shape == (-(-len(samples) // 1920), 16), name
        assert np.array_equal(codes, GOLDENS[name]), name


def test_the_goldens_use_many_codes_of_every_codebook() -> None:
    assert all(len(np.unique(GOLDENS["long"][:, book])) > 8 for book in range(16))


def test_codes_depend_on_earlier_samples_only(encoder: CodecEncoder) -> None:
    longer, shorter = RECORDINGS["odd"], RECORDINGS["odd"][: 10 * 1920]
    assert np.array_equal(encode(encoder, shorter), encode(encoder, longer)[:10])


def test_what_is_not_a_recording_is_rejected(encoder: CodecEncoder) -> None:
    for samples in (np.zeros(0, np.float32), np.zeros((2, 1920), np.float32), np.asarray(np.float32(0))):
        with pytest.raises(ValueError, match="recording"):
            encode(encoder, samples)
        with pytest.raises(ValueError, match="recording"):
            encoder.encode([RECORDINGS["odd"], samples])


def test_other_dtypes_and_strides_are_read_correctly(encoder: CodecEncoder) -> None:
    doubled = np.repeat(RECORDINGS["odd"], 2)[::2]
    assert np.array_equal(encode(encoder, doubled), GOLDENS["odd"])
    assert np.array_equal(encode(encoder, RECORDINGS["odd"].astype(np.float64)), GOLDENS["odd"])


def test_a_missing_or_invalid_weight_is_named() -> None:
    complete = state()
    keys = sorted(complete)
    for key in keys[:: max(1, len(keys) // 25)]:
        missing = {other: value for other, value in complete.items() if other != key}
        for changed in (missing, complete | {key: complete[key][None]}):
            with pytest.raises(ModelNotUsable, match=key.replace(".", r"\.")):
                CodecEncoder.from_state(CONFIG, changed, CPU)


def test_an_unknown_weight_is_named() -> None:
    with pytest.raises(ModelNotUsable, match=r"downsample\.conv\.bias"):
        CodecEncoder.from_state(CONFIG, state() | {"downsample.conv.bias": torch.zeros(32)}, CPU)


def test_every_published_shape_is_read() -> None:
    fields = msgspec.to_builtins(CodecEncoderConfig(head_dim=64))
    weights = {key: torch.empty(shape, device="meta") for key, shape in make.encoder_shapes(fields).items()}
    assert sum(value.numel() for value in weights.values()) == ENCODER_VALUES
    decoder = {**make.DECODER, "codebook_size": 2048}
    config = msgspec.convert({"decoder_config": decoder, "encoder_config": fields}, CodecConfig)
    unread = make.strip(weights, "encoder.")
    EncoderWeights.from_state(config, unread)
    assert not unread


# -- Batches -----------------------------------------------------------------------------------------------------------


def test_recordings_in_one_pass_have_the_codes_of_each_alone(encoder: CodecEncoder) -> None:
    recordings = list(RECORDINGS.values())
    for codes, name in zip(encoder.encode(recordings), RECORDINGS, strict=True):
        assert np.array_equal(codes, GOLDENS[name]), name


def test_every_limit_of_a_frame_is_exact_beside_longer_recordings(encoder: CodecEncoder) -> None:
    lengths = [1, 7, 959, 960, 961, 1919, 1920, 1921, 2880, 3840, 5000, 24_000, 40_001]
    recordings = [RECORDINGS["long"][:samples] for samples in lengths]
    for codes, recording in zip(encoder.encode(recordings), recordings, strict=True):
        assert codes.shape == (-(-len(recording) // 1920), 16)
        assert np.array_equal(codes, encode(encoder, recording))
        assert codes.base is None, "it keeps no memory of the other rows"
