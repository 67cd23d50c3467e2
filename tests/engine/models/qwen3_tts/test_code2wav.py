"""Chunks of any size, in any company, sound as the whole stream does in the reference."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

torch = pytest.importorskip("torch")

from realtime_tts.engine.models.qwen3_tts.code2wav import (  # noqa: E402
    Code2Wav,
    flops_per_frame,
    state_shapes,
)
from realtime_tts.engine.models.qwen3_tts.codec_config import CodecDecoderConfig  # noqa: E402
from realtime_tts.errors import ModelNotUsable  # noqa: E402
from tests.engine.models.qwen3_tts import make_codec as make  # noqa: E402

Array = npt.NDArray[np.float32]
Codes = npt.NDArray[np.int64]

CONFIG = msgspec.convert(make.DECODER, CodecDecoderConfig)
PUBLISHED = CodecDecoderConfig(
    codebook_dim=512, hidden_size=512, head_dim=64, intermediate_size=1024, latent_dim=1024, decoder_dim=1536
)
GOLDENS = np.load(Path(__file__).parent / "goldens_codec" / "decoder.npz")
CODES = make.codes(make.DECODED_FRAMES, make.CODES_SEED)
FRAME = 1920
TOLERANCE = 1e-6
"""Of full scale: a thirtieth of the last bit of 16."""


def build(slots: int = 4, *, captured_rows: int = 0) -> Code2Wav:
    decoder = Code2Wav.from_state(CONFIG, make.strip(make.codec_state(), "decoder."), "cpu", slots)
    if captured_rows:
        decoder.capture(captured_rows, lambda _line: None)
    return decoder


@pytest.fixture(scope="module")
def decoder() -> Code2Wav:
    return build()


@pytest.fixture(scope="module")
def whole(decoder: Code2Wav) -> Array:
    """The stream in one step, which the goldens vouch for."""
    return speak(decoder, CODES, [len(CODES)], max_step_frames=len(CODES))


def speak(decoder: Code2Wav, codes: Codes, sizes: Sequence[int], max_step_frames: int = 32) -> Array:
    slot = decoder.arena.acquire()
    try:
        pieces = []
        for size in sizes:
            pieces += decoder.decode([slot], [codes[:size]], max_step_frames)
            codes = codes[size:]
        assert not len(codes)
        return np.concatenate(pieces)
    finally:
        decoder.arena.release(slot)


def assert_close(wave: Array, expected: Array, tolerance: float = TOLERANCE) -> None:
    assert wave.shape == expected.shape
    assert np.abs(wave - expected).max(initial=0) <= tolerance


def assert_golden(wave: Array, name: str) -> None:
    """Within 1e-6 as a whole, and 2e-6 of the loudest at worst (measured: 4e-7 and 7e-7; the goldens were made in
    double, from which the reference's own fp32 differs by 8e-7 at worst)."""
    for part, value in make.digest(wave).items():
        expected = GOLDENS[f"{name}_{part}"]
        assert value.shape == expected.shape
        assert np.sqrt(np.mean((value - expected) ** 2)) <= 1e-6 * np.sqrt(np.mean(expected**2))
        assert np.abs(value - expected).max() <= 2e-6 * np.abs(expected).max()


@pytest.mark.parametrize(
    "sizes",
    [[330], [1] * 330, [2, 4, 8, 16, *[25] * 12], [7, 32, 33, 71, 72, 73, 42]],
    ids=["at once", "one by one", "a ramp", "about the window"],
)
@pytest.mark.parametrize("max_step_frames", [32, 1000])
def test_chunks_sound_as_the_whole_stream_does_in_the_reference(
    decoder: Code2Wav, sizes: list[int], max_step_frames: int
) -> None:
    wave = speak(decoder, CODES, sizes, max_step_frames)
    assert wave.dtype == np.float32
    assert wave.shape == (330 * FRAME,)
    assert_golden(wave, "whole")


@given(st.lists(st.integers(0, 40), min_size=1, max_size=12))
@settings(max_examples=15, deadline=None)
def test_any_chunks_join_without_a_seam(sizes: list[int]) -> None:
    decoder = build(slots=1)
    frames = sum(sizes)
    codes = make.codes(frames, 7)
    assert_close(speak(decoder, codes, sizes), speak(decoder, codes, [frames], max_step_frames=max(1, frames)))


@given(st.data())
@settings(max_examples=10, deadline=None)
def test_streams_of_any_age_and_chunk_do_not_hear_each_other(data: st.DataObject) -> None:
    # Without graphs, and with those for one row and two: three are then a step as any other.
    decoder = build(slots=3, captured_rows=data.draw(st.sampled_from([0, 2, 3])))
    streams = [make.codes(data.draw(st.integers(1, 60)), seed) for seed in range(5)]
    done = [0] * len(streams)
    pieces: list[list[Array]] = [[] for _ in streams]
    slots: dict[int, int] = {}
    while any(at < len(codes) for at, codes in zip(done, streams, strict=True)):
        waiting = [n for n, codes in enumerate(streams) if done[n] < len(codes) and n not in slots]
        for n in waiting[: decoder.arena.free]:
            slots[n] = decoder.arena.acquire()
        batch = data.draw(st.permutations(sorted(slots)))[: data.draw(st.integers(1, len(slots)))]
        sizes = [min(data.draw(st.integers(1, 25)), len(streams[n]) - done[n]) for n in batch]
        chunks = [streams[n][done[n] : done[n] + size] for n, size in zip(batch, sizes, strict=True)]
        waves = decoder.decode([slots[n] for n in batch], chunks)
        for n, size, wave in zip(batch, sizes, waves, strict=True):
            assert len(wave) == size * FRAME
            pieces[n].append(wave)
            done[n] += size
            if done[n] == len(streams[n]):
                decoder.arena.release(slots.pop(n))
    for codes, heard in zip(streams, pieces, strict=True):
        assert_close(np.concatenate(heard), speak(decoder, codes, [len(codes)], max_step_frames=100))


def test_a_batch_is_filled_up_to_a_captured_one_without_being_heard() -> None:
    decoder, plain = build(slots=3, captured_rows=4), build(slots=3)
    assert decoder.arena.free == 3
    codes = [make.codes(45, seed) for seed in range(3)]
    slots = [decoder.arena.acquire() for _ in codes]
    for start, end in ((0, 7), (7, 45)):
        waves = decoder.decode(slots, [stream[start:end] for stream in codes])
        for wave, stream in zip(waves, codes, strict=True):
            assert_close(wave, speak(plain, stream[:end], [end])[start * FRAME :])


def test_an_old_and_a_new_stream_share_a_step(decoder: Code2Wav, whole: Array) -> None:
    old, new = decoder.arena.acquire(), decoder.arena.acquire()
    heard = decoder.decode([old], [CODES[:300]])
    young = []
    for start in range(0, 30, 6):
        first, second = decoder.decode([new, old], [CODES[start : start + 6], CODES[300 + start : 306 + start]])
        young.append(first)
        heard.append(second)
    decoder.arena.release(old)
    decoder.arena.release(new)
    assert_close(np.concatenate(heard), whole)
    assert_close(np.concatenate(young), whole[: 30 * FRAME])


def test_a_snapshot_goes_on_in_another_slot_and_decoder(decoder: Code2Wav, whole: Array) -> None:
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


def test_a_reused_slot_remembers_nothing(decoder: Code2Wav, whole: Array) -> None:
    slot = decoder.arena.acquire()
    decoder.decode([slot], [make.codes(90, 3)])
    decoder.arena.release(slot)
    assert decoder.arena.acquire() == slot
    assert_close(decoder.decode([slot], [CODES[:20]])[0], whole[: 20 * FRAME])
    decoder.arena.release(slot)


@pytest.mark.parametrize("changed", [0, 1, 40, 129])
def test_a_frame_changes_no_sound_before_it(decoder: Code2Wav, changed: int) -> None:
    codes = CODES[:130].copy()
    before = speak(decoder, codes, [130])
    codes[changed] = (codes[changed] + 1) % CONFIG.codebook_size
    after = speak(decoder, codes, [130])
    differs = np.flatnonzero(before != after)
    assert differs[0] == changed * FRAME
    if changed == 129:
        assert len(differs) > 0.9 * FRAME


@pytest.mark.parametrize("book", range(16))
def test_every_codebook_is_heard(decoder: Code2Wav, book: int) -> None:
    codes = CODES[:2].copy()
    before = speak(decoder, codes, [2])
    codes[1, book] = (codes[1, book] + 1) % CONFIG.codebook_size
    assert np.abs(speak(decoder, codes, [2]) - before).max() > 1e-4


@pytest.mark.parametrize(("chunk", "context"), make.WINDOWS)
def test_windows_sound_as_the_reference_cuts_them(decoder: Code2Wav, chunk: int, context: int) -> None:
    pieces = []
    for start in range(0, make.WINDOWED_FRAMES, chunk):
        # The reference counts so: the first window that could be full is already cut.
        before = context if start > context else start
        pieces.append(decoder.decode_windowed(CODES[start - before : start + chunk], before))
    assert_golden(np.concatenate(pieces), f"windowed_{chunk}_{context}")


def test_a_state_hears_what_a_window_has_forgotten(decoder: Code2Wav, whole: Array) -> None:
    windowed = decoder.decode_windowed(CODES[200:229], 25)
    assert np.abs(windowed - whole[225 * FRAME : 229 * FRAME]).max() > 1000 * TOLERANCE


def test_no_frames_are_no_samples_and_no_change(decoder: Code2Wav) -> None:
    assert decoder.decode([], []) == []
    slot = decoder.arena.acquire()
    decoder.decode([slot], [CODES[:3]])
    kept = decoder.arena.snapshot(slot)
    assert decoder.decode([slot], [CODES[:0]])[0].shape == (0,)
    assert torch.equal(kept, decoder.arena.snapshot(slot))
    decoder.arena.release(slot)


def test_a_broken_stream_breaks_no_other_and_leaves_nothing_in_its_slot(decoder: Code2Wav, whole: Array) -> None:
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


def test_a_batch_may_be_filled_up_with_one_slot_that_nobody_hears(decoder: Code2Wav, whole: Array) -> None:
    # As a CUDA graph of a fixed batch has it.
    heard, scratch = decoder.arena.acquire(), decoder.arena.acquire()
    for start in (0, 4):
        rows = torch.from_numpy(np.stack([CODES[start : start + 4], CODES[:4], CODES[4:8]]))
        wave = decoder.step(rows, torch.tensor([heard, scratch, scratch]))[0].numpy()
        assert_close(wave, whole[start * FRAME : (start + 4) * FRAME])
    decoder.arena.release(heard)
    decoder.arena.release(scratch)


BAD_CODES = {
    "a code too high": np.full((1, 16), 64),
    "a negative code": np.full((1, 16), -1),
    "one code too high among good ones": np.where(np.arange(160).reshape(10, 16) == 77, 64, 0),
    "a codebook too few": np.zeros((1, 15), int),
    "a single frame without its axis": np.zeros(16, int),
    "floats": np.zeros((1, 16)),
}


@pytest.mark.parametrize("bad", BAD_CODES.values(), ids=BAD_CODES.keys())
def test_bad_codes_are_refused_before_any_stream_moves(decoder: Code2Wav, bad: Codes) -> None:
    good, other = decoder.arena.acquire(), decoder.arena.acquire()
    before = decoder.arena.snapshot(good)
    with pytest.raises(ValueError, match="codes must be"):
        decoder.decode([good, other], [CODES[:1], bad])
    with pytest.raises(ValueError, match="codes must be"):
        decoder.decode_windowed(bad, 0)
    assert torch.equal(before, decoder.arena.snapshot(good))
    decoder.arena.release(good)
    decoder.arena.release(other)


def test_slots_that_are_not_held_or_held_twice_are_refused(decoder: Code2Wav) -> None:
    slot = decoder.arena.acquire()
    for slots in ([slot, slot], [slot, 3 - slot], [slot, -1], [slot]):
        with pytest.raises(ValueError, match="slot"):
            decoder.decode(slots, [CODES[:1], CODES[:1]])
    decoder.arena.release(slot)


@pytest.mark.parametrize(("frames", "context"), [(3, -1), (3, 3), (0, 0)])
def test_a_window_without_a_new_frame_is_refused(decoder: Code2Wav, frames: int, context: int) -> None:
    with pytest.raises(ValueError, match="context"):
        decoder.decode_windowed(CODES[:frames], context)


@pytest.mark.parametrize("frames", [0, -1])
def test_a_step_of_nothing_is_refused(decoder: Code2Wav, frames: int) -> None:
    slot = decoder.arena.acquire()
    with pytest.raises(ValueError, match="a frame or more"):
        decoder.decode([slot], [CODES[:1]], max_step_frames=frames)
    decoder.arena.release(slot)


def test_what_is_too_loud_is_cut_off_at_full_scale() -> None:
    state = make.strip(make.codec_state(), "decoder.")
    for name in ("weight", "bias"):
        state[f"decoder.6.conv.{name}"] = 10 * state[f"decoder.6.conv.{name}"]
    loud = speak(Code2Wav.from_state(CONFIG, state, "cpu", 1), CODES[:20], [20])
    quiet = speak(build(), CODES[:20], [20])
    assert (loud.min(), loud.max()) == (-1, 1)
    assert_close(loud, np.clip(10 * quiet, -1, 1), tolerance=1e-5)


KEYS = sorted(make.strip(make.codec_state(), "decoder."))


@pytest.mark.parametrize("key", KEYS[:: max(1, len(KEYS) // 25)])
def test_a_missing_or_misshapen_weight_is_named(key: str) -> None:
    changes: list[Callable[[dict[str, Any]], Any]] = [
        lambda state: state.pop(key),
        lambda state: state.update({key: state[key][None]}),
        lambda state: state.update({key: state[key].long()}),
    ]
    for change in changes:
        state = make.strip(make.codec_state(), "decoder.")
        change(state)
        with pytest.raises(ModelNotUsable, match=key.replace(".", r"\.")):
            Code2Wav.from_state(CONFIG, state, "cpu", 1)


def test_a_weight_that_is_not_known_is_named() -> None:
    state = make.strip(make.codec_state(), "decoder.") | {"decoder.9.conv.weight": torch.zeros(1)}
    with pytest.raises(ModelNotUsable, match=r"decoder\.9\.conv\.weight"):
        Code2Wav.from_state(CONFIG, state, "cpu", 1)


def test_half_precision_weights_are_widened() -> None:
    state = {key: value.half() for key, value in make.strip(make.codec_state(), "decoder.").items()}
    wave = speak(Code2Wav.from_state(CONFIG, state, "cpu", 1), CODES[:2], [2])
    assert wave.dtype == np.float32
    assert np.isfinite(wave).all()


def test_every_shape_that_is_published_is_taken() -> None:
    fields = {name: getattr(PUBLISHED, name) for name in PUBLISHED.__slots__}
    state = {key: torch.empty(shape, device="meta") for key, shape in make.decoder_shapes(fields).items()}
    assert sum(value.numel() for value in state.values()) == PUBLISHED_PARAMETERS
    Code2Wav.from_state(PUBLISHED, make.strip(state, "decoder."), "meta", 1)


PUBLISHED_PARAMETERS = 114_323_137
"""Of the decoder alone, counted in the reference (`qwen-tts` 0.1.1)."""


def test_a_published_stream_keeps_5_megabytes() -> None:
    floats = sum(int(np.prod(shape)) for shape in state_shapes(PUBLISHED).values())
    assert floats * 4 == pytest.approx(5.19e6, rel=0.01)


@pytest.mark.parametrize(("frames", "rows"), [(1, 1), (4, 2), (25, 1)])
def test_the_operations_counted_are_those_that_run(decoder: Code2Wav, frames: int, rows: int) -> None:
    from torch.nn.attention import SDPBackend, sdpa_kernel
    from torch.utils.flop_counter import FlopCounterMode

    slots = [decoder.arena.acquire() for _ in range(rows)]
    # The counter does not know the fused attention of a CPU.
    with sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as counter:
        decoder.decode(slots, [CODES[:frames]] * rows)
    for slot in slots:
        decoder.arena.release(slot)
    assert counter.get_total_flops() == pytest.approx(flops_per_frame(CONFIG, frames) * frames * rows, rel=1e-3)


@pytest.mark.parametrize("chunk", [1, 2, 4])
@pytest.mark.parametrize("context", [25, 72])
def test_small_chunks_cost_a_third_at_most_of_what_windows_cost(chunk: int, context: int) -> None:
    assert flops_per_frame(PUBLISHED, chunk, context) >= 3 * flops_per_frame(PUBLISHED, chunk)
