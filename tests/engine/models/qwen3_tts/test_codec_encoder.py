"""Recordings become the codes that the reference makes of them, at every edge of a frame."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

torch = pytest.importorskip("torch")

from realtime_tts.engine.models.qwen3_tts.codec_config import CodecConfig, CodecEncoderConfig  # noqa: E402
from realtime_tts.engine.models.qwen3_tts.codec_encoder import CodecEncoder, EncoderWeights  # noqa: E402
from realtime_tts.errors import ModelNotUsable  # noqa: E402
from tests.engine.models.qwen3_tts import make_codec as make  # noqa: E402

CONFIG = msgspec.convert(make.CODEC, CodecConfig)
GOLDENS = np.load(Path(__file__).parent / "goldens_codec" / "encoder.npz")
RECORDINGS = make.recordings()
PUBLISHED_VALUES = 56_234_304
"""Of the encoder, counters of its codebooks among them, counted in the reference (`qwen-tts` 0.1.1)."""


def build(attention_window: int | None = None) -> CodecEncoder:
    return CodecEncoder.from_state(CONFIG, make.strip(make.codec_state(), "encoder."), "cpu", attention_window)


@pytest.fixture(scope="module")
def encoder() -> CodecEncoder:
    return build()


@pytest.mark.parametrize("name", RECORDINGS)
def test_codes_are_those_of_the_reference(encoder: CodecEncoder, name: str) -> None:
    codes = encoder.encode(RECORDINGS[name])
    assert codes.shape == (-(-len(RECORDINGS[name]) // 1920), 16)
    assert np.array_equal(codes, GOLDENS[name])


def test_the_goldens_tell_codes_apart() -> None:
    assert all(len(np.unique(GOLDENS["long"][:, book])) > 8 for book in range(16))


def test_the_past_decides_but_for_the_end_of_the_recording(encoder: CodecEncoder) -> None:
    longer, cut = RECORDINGS["odd"], RECORDINGS["odd"][: 10 * 1920]
    assert np.array_equal(encoder.encode(cut), encoder.encode(longer)[:10])


def test_a_window_of_attention_matters_beyond_it_only() -> None:
    windowed, whole = build(attention_window=250), build()
    first_second = RECORDINGS["long"][:24_000]
    assert np.array_equal(windowed.encode(first_second), whole.encode(first_second))
    codes = windowed.encode(RECORDINGS["long"])
    differs = np.flatnonzero((codes != GOLDENS["long"]).any(1))
    assert len(differs)
    assert differs[0] >= 250 // 2


def test_windowed_codes_are_those_of_the_reference_with_a_mask() -> None:
    codes = build(make.ENCODER_WINDOW).encode(RECORDINGS["long"])
    assert np.array_equal(codes, GOLDENS["long_windowed"])
    for off_by_one in (make.ENCODER_WINDOW - 1, make.ENCODER_WINDOW + 1):
        assert not np.array_equal(build(off_by_one).encode(RECORDINGS["long"]), codes)


def test_a_sample_that_is_far_back_does_not_matter_within_a_window() -> None:
    encoder, recording = build(attention_window=20), RECORDINGS["odd"].copy()
    before = encoder.encode(recording)
    recording[:1920] = 0
    after = encoder.encode(recording)
    # Two layers of attention, each 20 positions of half a frame, and the convolutions at both ends.
    assert np.array_equal(after[-1], before[-1])
    assert not np.array_equal(after[0], before[0])


@pytest.mark.parametrize("samples", [np.zeros(0, np.float32), np.zeros((2, 1920), np.float32), np.float32(0)])
def test_what_is_no_recording_is_refused(encoder: CodecEncoder, samples: Any) -> None:
    with pytest.raises(ValueError, match="recording"):
        encoder.encode(np.asarray(samples))


def test_other_types_and_strides_are_read_as_they_are(encoder: CodecEncoder) -> None:
    doubled = np.repeat(RECORDINGS["odd"], 2)[::2]
    assert np.array_equal(encoder.encode(doubled), GOLDENS["odd"])
    assert np.array_equal(encoder.encode(RECORDINGS["odd"].astype(np.float64)), GOLDENS["odd"])


KEYS = sorted(make.strip(make.codec_state(), "encoder."))


@pytest.mark.parametrize("key", KEYS[:: max(1, len(KEYS) // 25)])
def test_a_missing_or_misshapen_weight_is_named(key: str) -> None:
    changes: list[Callable[[dict[str, Any]], Any]] = [
        lambda state: state.pop(key),
        lambda state: state.update({key: state[key][None]}),
    ]
    for change in changes:
        state = make.strip(make.codec_state(), "encoder.")
        change(state)
        with pytest.raises(ModelNotUsable, match=key.replace(".", r"\.")):
            CodecEncoder.from_state(CONFIG, state, "cpu")


def test_a_weight_that_is_not_known_is_named() -> None:
    state = make.strip(make.codec_state(), "encoder.") | {"downsample.conv.bias": torch.zeros(32)}
    with pytest.raises(ModelNotUsable, match=r"downsample\.conv\.bias"):
        CodecEncoder.from_state(CONFIG, state, "cpu")


def test_every_shape_that_is_published_is_taken() -> None:
    published = CodecEncoderConfig(head_dim=64)
    fields = {name: getattr(published, name) for name in published.__slots__}
    state = {key: torch.empty(shape, device="meta") for key, shape in make.encoder_shapes(fields).items()}
    assert sum(value.numel() for value in state.values()) == PUBLISHED_VALUES
    decoder = {**make.DECODER, "codebook_size": 2048}
    config = msgspec.convert({"decoder_config": decoder, "encoder_config": fields}, CodecConfig)
    rest = make.strip(state, "encoder.")
    EncoderWeights.take(config, rest, None)
    assert not rest


# -- Several at once --------------------------------------------------------------------------------------------------


EDGES = [1, 7, 959, 960, 961, 1919, 1920, 1921, 2880, 3840, 5000, 24_000, 40_001]


def test_several_in_one_pass_have_the_codes_that_each_has_alone(encoder: CodecEncoder) -> None:
    recordings = list(RECORDINGS.values())
    for codes, alone in zip(encoder.encode_all(recordings), RECORDINGS, strict=True):
        assert np.array_equal(codes, GOLDENS[alone])


@pytest.mark.parametrize("attention_window", [None, 20])
def test_every_edge_of_a_frame_holds_beside_longer_recordings(attention_window: int | None) -> None:
    encoder = build(attention_window)
    recordings = [RECORDINGS["long"][:samples] for samples in EDGES]
    for codes, recording in zip(encoder.encode_all(recordings), recordings, strict=True):
        assert codes.shape == (-(-len(recording) // 1920), 16)
        assert np.array_equal(codes, encoder.encode(recording))
        assert codes.base is None, "no more is kept than the codes themselves"


def test_one_that_is_no_recording_refuses_the_pass(encoder: CodecEncoder) -> None:
    with pytest.raises(ValueError, match="recording"):
        encoder.encode_all([RECORDINGS["odd"], np.zeros(0, np.float32)])
