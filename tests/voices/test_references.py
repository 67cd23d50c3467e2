"""References: uploaded voices, recordings in a message, and URLs."""

import base64
from pathlib import Path

import numpy as np
import pytest

from realtime_tts.errors import InvalidConfig
from realtime_tts.voices.references import References
from realtime_tts.voices.store import VoiceStore
from tests.voices.test_store import AUDIO, add


async def test_a_reference_is_an_uploaded_voice_a_recording_or_a_url(tmp_path: Path) -> None:
    store = VoiceStore(tmp_path)
    add(store)
    requested: list[str] = []

    async def fetch(url: str) -> bytes:
        requested.append(url)
        return AUDIO

    references = References(store, fetch_url=fetch)
    stored = await references("voice:anna")
    sent = await references(f"data:audio/wav;base64,{base64.b64encode(AUDIO).decode()}")
    fetched = await references("https://example.org/anna.wav")
    np.testing.assert_array_equal(sent.samples, fetched.samples)
    np.testing.assert_allclose(stored.samples, sent.samples, atol=1e-4)
    assert sent.key == fetched.key
    assert requested == ["https://example.org/anna.wav"]


async def test_other_values_are_refused_and_the_field_is_named(tmp_path: Path) -> None:
    for store in (None, VoiceStore(tmp_path)):
        for value in ("voice:nobody", "voice:../anna", "http://127.0.0.1/", "AAAA", "", "voice:"):
            with pytest.raises(InvalidConfig, match=r"^(ref_audio|voice): "):
                await References(store)(value)
