"""Samples equal the reference's for chunks of any size, also where streams of other ages are in the batch."""

import pytest

pytest.importorskip("torch")

import itertools

import numpy as np
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from realtime_tts.engine.models.qwen3.codec.decoder import Code2Wav
from realtime_tts.engine.models.qwen3_omni.code2wav import START_SILENCE_SAMPLES
from tests.engine.models.qwen3_omni.goldens import error, golden
from tests.engine.models.qwen3_omni.inputs import CONVERSATIONS
from tests.engine.models.qwen3_omni.parts import OmniParts

NAMES = tuple(CONVERSATIONS)


def check(samples: np.ndarray, name: str) -> None:
    assert len(samples) == 1920 * len(golden(f"{name}/codes"))
    assert not samples[:START_SILENCE_SAMPLES].any()
    assert error(samples[START_SILENCE_SAMPLES:], f"{name}/wav") <= 1e-5, name


def decode_in_turns(decoder: Code2Wav, chunks: dict[str, list[int]]) -> None:
    """Each stream's next chunk, all in one batch; a stream begins with the round of its place in the order."""
    slots = {name: decoder.arena.acquire() for name in chunks}
    bounds = {name: [0, *itertools.accumulate(sizes)] for name, sizes in chunks.items()}
    made: dict[str, list[np.ndarray]] = {name: [] for name in chunks}
    rounds = max(len(sizes) for sizes in chunks.values()) + len(chunks)
    for round_number in range(rounds):
        due = [
            (name, round_number - late)
            for late, name in enumerate(chunks)
            if 0 <= round_number - late < len(chunks[name])
        ]
        codes = [golden(f"{name}/codes")[bounds[name][n] : bounds[name][n + 1]] for name, n in due]
        for (name, _n), samples in zip(due, decoder.decode([slots[name] for name, _n in due], codes), strict=True):
            made[name].append(samples)
    for name, slot in slots.items():
        check(np.concatenate(made[name]), name)
        decoder.arena.release(slot)


def test_a_whole_answer_at_once_equals_the_reference(omni_parts: OmniParts) -> None:
    decoder = omni_parts.decoder(slots=1)
    for name in NAMES:
        decode_in_turns(decoder, {name: [11]})


@settings(max_examples=5, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_chunks_of_any_size_equal_the_reference(omni_parts: OmniParts, data: st.DataObject) -> None:
    chunks: dict[str, list[int]] = {}
    for name in NAMES[: data.draw(st.integers(1, len(NAMES)))]:
        cuts = sorted(data.draw(st.sets(st.integers(1, 10), max_size=6)))
        chunks[name] = [b - a for a, b in itertools.pairwise([0, *cuts, 11])]
    decode_in_turns(omni_parts.decoder(), chunks)


def test_captured_sizes_equal_the_reference(omni_parts: OmniParts) -> None:
    decoder = omni_parts.decoder(slots=3)
    decoder.capture(3, lambda _line: None)
    decode_in_turns(decoder, {"text": [11], "audio": [2, 9], "image": [1] * 11})


def test_a_slot_begins_again_for_the_next_stream(omni_parts: OmniParts) -> None:
    decoder = omni_parts.decoder(slots=1)
    assert decoder.arena.free == 1
    for name in ("text", "turns"):
        decode_in_turns(decoder, {name: [4, 7]})
    assert torch.isfinite(decoder.arena.views["age"]).all()
