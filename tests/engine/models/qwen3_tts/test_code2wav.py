"""Chunks of any size, in any batch, give the samples of the whole stream in the reference."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import convert, to_builtins

torch = pytest.importorskip("torch")

from realtime_tts.engine.models.qwen3.codec.decoder import Code2Wav  # noqa: E402
from realtime_tts.engine.models.qwen3_tts.code2wav import state_shapes  # noqa: E402
from realtime_tts.engine.models.qwen3_tts.codec_config import CodecDecoderConfig  # noqa: E402
from realtime_tts.engine.models.qwen3_tts.memory import CODEC, DECODER_VALUES  # noqa: E402
from realtime_tts.errors import ModelNotUsable  # noqa: E402
from tests.engine.models.qwen3_tts import make_codec as make  # noqa: E402
from tests.engine.models.qwen3_tts.decoders import make_decoder  # noqa: E402

Array = npt.NDArray[np.float32]
Codes = npt.NDArray[np.int64]

CONFIG = convert(make.DECODER, CodecDecoderConfig)
GOLDENS = np.load(Path(__file__).parent / "goldens_codec" / "decoder.npz")
CODES = make.codes(make.DECODED_FRAMES, make.CODES_SEED)
FRAME = 1920
TOLERANCE = 1e-6
"""Of full scale: a thirtieth of the last of 16 bits."""


def state() -> dict[str, Any]:
    return make.strip(make.codec_state(), "decoder.")


def build(slots: int = 4, *, captured_rows: int = 0) -> Code2Wav:
    decoder = make_decoder(CONFIG, state(), slots)
    if captured_rows:
        decoder.capture(captured_rows, lambda _line: None)
    return decoder


@pytest.fixture(scope="module")
def decoder() -> Code2Wav:
    return build()


@pytest.fixture(scope="module")
def whole(decoder: Code2Wav) -> Array:
    """The stream in one call, which the goldens verify."""
    return decode(decoder, CODES, [len(CODES)])


def decode(decoder: Code2Wav, codes: Codes, sizes: Sequence[int]) -> Array:
    slot = decoder.arena.acquire()
    try:
        pieces = []
        for size in sizes:
            pieces += decoder.decode([slot], [codes[:size]])
            codes = codes[size:]
        assert not len(codes)
        return np.concatenate(pieces)
    finally:
        decoder.arena.release(slot)


def assert_close(wave: Array, expected: Array, tolerance: float = TOLERANCE) -> None:
    assert wave.shape == expected.shape
    assert np.abs(wave - expected).max(initial=0) <= tolerance


def assert_golden(wave: Array, name: str) -> None:
    """RMS within 1e-6, and peak within 2e-6 (measured: 4e-7 and 7e-7; the goldens were made in double precision, from
    which the reference's own fp32 differs by at most 8e-7)."""
    for part, value in make.digest(wave).items():
        expected = GOLDENS[f"{name}_{part}"]
        assert value.shape == expected.shape
        assert np.sqrt(np.mean((value - expected) ** 2)) <= 1e-6 * np.sqrt(np.mean(expected**2))
        assert np.abs(value - expected).max() <= 2e-6 * np.abs(expected).max()


def test_the_whole_stream_equals_the_reference(whole: Array) -> None:
    assert whole.dtype == np.float32
    assert whole.shape == (330 * FRAME,)
    assert_golden(whole, "whole")


def test_chunks_around_the_attention_window_equal_the_reference(decoder: Code2Wav) -> None:
    assert_golden(decode(decoder, CODES, [2, 4, 8, 16, *[25] * 12]), "whole")
    assert_golden(decode(decoder, CODES, [7, 32, 33, 71, 72, 73, 42]), "whole")


@pytest.mark.slow
def test_single_frames_equal_the_reference(decoder: Code2Wav) -> None:
    assert_golden(decode(decoder, CODES, [1] * 330), "whole")


@given(st.lists(st.integers(0, 40), min_size=1, max_size=6))
@settings(max_examples=5, deadline=None)
def test_chunks_of_any_size_join_without_a_seam(sizes: list[int]) -> None:
    _check_seams(sizes)


@pytest.mark.slow
@given(st.lists(st.integers(0, 40), min_size=1, max_size=12))
@settings(max_examples=30, deadline=None)
def test_many_chunks_of_any_size_join_without_a_seam(sizes: list[int]) -> None:
    _check_seams(sizes)


def _check_seams(sizes: list[int]) -> None:
    decoder = build(slots=1)
    frames = sum(sizes)
    codes = make.codes(frames, 7)
    assert_close(decode(decoder, codes, sizes), decode(decoder, codes, [frames]))


@given(st.data())
@settings(max_examples=3, deadline=None)
def test_streams_in_one_batch_are_independent(data: st.DataObject) -> None:
    _check_independence(data, streams=4, longest=40)


@pytest.mark.slow
@given(st.data())
@settings(max_examples=15, deadline=None)
def test_many_streams_in_one_batch_are_independent(data: st.DataObject) -> None:
    _check_independence(data, streams=5, longest=60)


def _check_independence(data: st.DataObject, *, streams: int, longest: int) -> None:
    # Without graphs, and with those for one row and two: three rows are then an uncaptured step.
    decoder = build(slots=3, captured_rows=data.draw(st.sampled_from([0, 2, 3])))
    codes = [make.codes(data.draw(st.integers(1, longest)), seed) for seed in range(streams)]
    done = [0] * streams
    pieces: list[list[Array]] = [[] for _ in codes]
    slots: dict[int, int] = {}
    while any(position < len(each) for position, each in zip(done, codes, strict=True)):
        waiting = [n for n, each in enumerate(codes) if done[n] < len(each) and n not in slots]
        for n in waiting[: decoder.arena.free]:
            slots[n] = decoder.arena.acquire()
        batch = data.draw(st.permutations(sorted(slots)))[: data.draw(st.integers(1, len(slots)))]
        sizes = [min(data.draw(st.integers(1, 25)), len(codes[n]) - done[n]) for n in batch]
        chunks = [codes[n][done[n] : done[n] + size] for n, size in zip(batch, sizes, strict=True)]
        waves = decoder.decode([slots[n] for n in batch], chunks)
        for n, size, wave in zip(batch, sizes, waves, strict=True):
            assert len(wave) == size * FRAME
            pieces[n].append(wave)
            done[n] += size
            if done[n] == len(codes[n]):
                decoder.arena.release(slots.pop(n))
    for each, parts in zip(codes, pieces, strict=True):
        assert_close(np.concatenate(parts), decode(decoder, each, [len(each)]))


def test_the_rows_that_fill_a_captured_batch_change_no_stream() -> None:
    decoder, plain = build(slots=3, captured_rows=4), build(slots=3)
    assert decoder.arena.free == 3
    codes = [make.codes(45, seed) for seed in range(3)]
    slots = [decoder.arena.acquire() for _ in codes]
    for start, end in ((0, 7), (7, 45)):
        waves = decoder.decode(slots, [stream[start:end] for stream in codes])
        for wave, stream in zip(waves, codes, strict=True):
            assert_close(wave, decode(plain, stream[:end], [end])[start * FRAME :])


def test_an_old_and_a_new_stream_share_a_step(decoder: Code2Wav, whole: Array) -> None:
    old, new = decoder.arena.acquire(), decoder.arena.acquire()
    old_waves = decoder.decode([old], [CODES[:300]])
    new_waves = []
    for start in range(0, 30, 6):
        first, second = decoder.decode([new, old], [CODES[start : start + 6], CODES[300 + start : 306 + start]])
        new_waves.append(first)
        old_waves.append(second)
    decoder.arena.release(old)
    decoder.arena.release(new)
    assert_close(np.concatenate(old_waves), whole)
    assert_close(np.concatenate(new_waves), whole[: 30 * FRAME])


def test_a_snapshot_continues_in_another_slot_and_decoder(decoder: Code2Wav, whole: Array) -> None:
    slot = decoder.arena.acquire()
    decoder.decode([slot], [CODES[:100]])
    kept = decoder.arena.snapshot(slot)
    first = decoder.decode([slot], [CODES[100:140]])[0]
    decoder.decode([slot], [make.codes(9, 1)])
    decoder.arena.restore(slot, kept)
    again = decoder.decode([slot], [CODES[100:140]])[0]
    decoder.arena.release(slot)
    assert np.array_equal(first, again)
    other = build(slots=3)
    elsewhere = [other.arena.acquire() for _ in range(3)][2]
    other.arena.restore(elsewhere, kept)
    assert_close(other.decode([elsewhere], [CODES[100:140]])[0], whole[100 * FRAME : 140 * FRAME])


def test_a_reused_slot_has_no_old_state(decoder: Code2Wav, whole: Array) -> None:
    slot = decoder.arena.acquire()
    decoder.decode([slot], [make.codes(90, 3)])
    decoder.arena.release(slot)
    assert decoder.arena.acquire() == slot
    assert_close(decoder.decode([slot], [CODES[:20]])[0], whole[: 20 * FRAME])
    decoder.arena.release(slot)


def test_a_frame_changes_no_earlier_sample(decoder: Code2Wav) -> None:
    before = decode(decoder, CODES[:80], [80])
    for changed in (0, 1, 40, 79):
        codes = CODES[:80].copy()
        codes[changed] = (codes[changed] + 1) % CONFIG.codebook_size
        differs = np.flatnonzero(before != decode(decoder, codes, [80]))
        assert differs[0] == changed * FRAME
        assert changed < 79 or len(differs) > 0.9 * FRAME


def test_every_codebook_changes_the_audio(decoder: Code2Wav) -> None:
    before = decode(decoder, CODES[:2], [2])
    for book in range(16):
        codes = CODES[:2].copy()
        codes[1, book] = (codes[1, book] + 1) % CONFIG.codebook_size
        assert np.abs(decode(decoder, codes, [2]) - before).max() > 1e-4, f"codebook {book}"


def test_windows_equal_those_of_the_reference(decoder: Code2Wav) -> None:
    for chunk, context in make.WINDOWS:
        pieces = []
        for start in range(0, make.WINDOWED_FRAMES, chunk):
            # As the reference counts: the first window with enough earlier frames is already shortened.
            before = context if start > context else start
            pieces.append(decoder.decode_windowed(CODES[start - before : start + chunk], before))
        assert_golden(np.concatenate(pieces), f"windowed_{chunk}_{context}")


def test_a_window_differs_from_the_exact_stream(decoder: Code2Wav, whole: Array) -> None:
    windowed = decoder.decode_windowed(CODES[200:229], 25)
    assert np.abs(windowed - whole[225 * FRAME : 229 * FRAME]).max() > 1000 * TOLERANCE


def test_no_frames_give_no_samples_and_change_no_state(decoder: Code2Wav) -> None:
    assert decoder.decode([], []) == []
    slot = decoder.arena.acquire()
    decoder.decode([slot], [CODES[:3]])
    kept = decoder.arena.snapshot(slot)
    assert decoder.decode([slot], [CODES[:0]])[0].shape == (0,)
    assert torch.equal(kept, decoder.arena.snapshot(slot))
    decoder.arena.release(slot)


def test_nan_in_one_stream_reaches_no_other_and_leaves_with_its_slot(decoder: Code2Wav, whole: Array) -> None:
    broken, sound = decoder.arena.acquire(), decoder.arena.acquire()
    decoder.arena.restore(broken, torch.full_like(decoder.arena.snapshot(broken), torch.nan))
    waves = decoder.decode([broken, sound], [CODES[:5], CODES[:5]])
    assert np.isnan(waves[0]).any()
    assert_close(waves[1], whole[: 5 * FRAME])
    decoder.arena.release(broken)
    assert decoder.arena.acquire() == broken
    assert_close(decoder.decode([broken], [CODES[:5]])[0], whole[: 5 * FRAME])
    decoder.arena.release(broken)
    decoder.arena.release(sound)


def test_one_unused_slot_can_fill_several_rows_of_a_step(decoder: Code2Wav, whole: Array) -> None:
    # As a CUDA graph of a fixed batch size does.
    used, scratch = decoder.arena.acquire(), decoder.arena.acquire()
    for start in (0, 4):
        rows = torch.from_numpy(np.stack([CODES[start : start + 4], CODES[:4], CODES[4:8]]))
        wave = decoder.step(rows, torch.tensor([used, scratch, scratch]))[0].numpy()
        assert_close(wave, whole[start * FRAME : (start + 4) * FRAME])
    decoder.arena.release(used)
    decoder.arena.release(scratch)


BAD_CODES: dict[str, npt.NDArray[Any]] = {
    "a code too high": np.full((1, 16), 64),
    "a negative code": np.full((1, 16), -1),
    "one code too high among good ones": np.where(np.arange(160).reshape(10, 16) == 77, 64, 0),
    "a codebook too few": np.zeros((1, 15), int),
    "a single frame without its axis": np.zeros(16, int),
    "floats": np.zeros((1, 16)),
}


def test_bad_codes_are_rejected_before_any_state_changes(decoder: Code2Wav) -> None:
    good, other = decoder.arena.acquire(), decoder.arena.acquire()
    before = decoder.arena.snapshot(good)
    for name, bad in BAD_CODES.items():
        with pytest.raises(ValueError, match="codes must be"):
            decoder.decode([good, other], [CODES[:1], bad])
        with pytest.raises(ValueError, match="codes must be"):
            decoder.decode_windowed(bad, 0)
        assert torch.equal(before, decoder.arena.snapshot(good)), name
    decoder.arena.release(good)
    decoder.arena.release(other)


def test_slots_that_are_free_or_occur_twice_are_rejected(decoder: Code2Wav) -> None:
    slot = decoder.arena.acquire()
    for slots in ([slot, slot], [slot, 3 - slot], [slot, -1], [slot]):
        with pytest.raises(ValueError, match="slot"):
            decoder.decode(slots, [CODES[:1], CODES[:1]])
    decoder.arena.release(slot)


def test_a_window_without_a_new_frame_is_rejected(decoder: Code2Wav) -> None:
    for frames, context in ((3, -1), (3, 3), (0, 0)):
        with pytest.raises(ValueError, match="context"):
            decoder.decode_windowed(CODES[:frames], context)


def test_samples_are_clipped_to_full_scale() -> None:
    weights = state()
    for name in ("weight", "bias"):
        weights[f"decoder.6.conv.{name}"] = 10 * weights[f"decoder.6.conv.{name}"]
    loud = decode(make_decoder(CONFIG, weights, 1), CODES[:20], [20])
    quiet = decode(build(), CODES[:20], [20])
    assert (float(loud.min()), float(loud.max())) == (-1.0, 1.0)
    assert_close(loud, np.clip(10 * quiet, -1, 1), tolerance=1e-5)


def test_a_missing_or_invalid_weight_is_named() -> None:
    complete = state()
    keys = sorted(complete)
    for key in keys[:: max(1, len(keys) // 25)]:
        changes = [{key: complete[key][None]}, {key: complete[key].long()}]
        missing = {other: value for other, value in complete.items() if other != key}
        for changed in (missing, *(complete | change for change in changes)):
            with pytest.raises(ModelNotUsable, match=key.replace(".", r"\.")):
                make_decoder(CONFIG, changed, 1)


def test_an_unknown_weight_is_named() -> None:
    with pytest.raises(ModelNotUsable, match=r"decoder\.9\.conv\.weight"):
        make_decoder(CONFIG, state() | {"decoder.9.conv.weight": torch.zeros(1)}, 1)


def test_half_precision_weights_are_converted_to_float32() -> None:
    half = {key: value.half() for key, value in state().items()}
    wave = decode(make_decoder(CONFIG, half, 1), CODES[:2], [2])
    assert wave.dtype == np.float32
    assert np.isfinite(wave).all()


def test_every_published_shape_is_read() -> None:
    shapes = make.decoder_shapes(to_builtins(CODEC))
    weights = {key: torch.empty(shape, device="meta") for key, shape in shapes.items()}
    assert sum(value.numel() for value in weights.values()) == DECODER_VALUES
    make_decoder(CODEC, make.strip(weights, "decoder."), 1)


def test_a_stream_of_the_published_decoder_has_5_megabytes_of_state() -> None:
    floats = sum(int(np.prod(shape)) for shape in state_shapes(CODEC).values())
    assert floats * 4 == pytest.approx(5.19e6, rel=0.01)
