"""Uploaded voices: what is kept is kept through anything, what is not allowed is refused, nothing is left behind."""

import base64
import contextlib
import io
import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import msgspec
import numpy as np
import pytest
import soundfile
from hypothesis import given, settings
from hypothesis import strategies as st

from realtime_tts.audio.pcm import Float32
from realtime_tts.errors import InvalidConfig, UnknownVoice, VoiceExists, VoiceStoreFull
from realtime_tts.voices.store import (
    References,
    StoredVoice,
    VoiceLimits,
    VoiceStore,
)

CONSENT = "I am the speaker, and I agree."


def tone(seconds: float = 1.5, hz: float = 300.0, rate_hz: int = 24_000) -> Float32:
    return (0.5 * np.sin(2 * np.pi * hz * np.arange(round(seconds * rate_hz)) / rate_hz)).astype(np.float32)


def recording(seconds: float = 1.5, hz: float = 300.0, rate_hz: int = 24_000) -> bytes:
    out = io.BytesIO()
    soundfile.write(out, tone(seconds, hz, rate_hz), rate_hz, format="WAV")
    return out.getvalue()


AUDIO = recording()


def add(store: VoiceStore, name: str = "anna", audio: bytes = AUDIO, **fields: object) -> StoredVoice:
    return store.add(name, audio, **{"consent": CONSENT, "created_at": 1234.5, **fields})  # type: ignore[arg-type]


def files(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_voice_is_there_again_after_a_restart(tmp_path: Path) -> None:
    voice = add(VoiceStore(tmp_path / "new" / "folder"), ref_text=" What was said. ")
    again = VoiceStore(tmp_path / "new" / "folder")
    assert again.voices() == (voice,)
    assert again.problems == []
    assert (voice.name, voice.consent, voice.created_at, voice.ref_text) == (
        "anna",
        CONSENT,
        1234.5,
        "What was said.",
    )
    reference = again.reference("anna")
    assert (reference.sample_rate_hz, reference.text, reference.x_vector_only) == (24_000, "What was said.", False)
    np.testing.assert_allclose(reference.samples, tone(), atol=1e-4)
    assert reference.key == voice.sha256


def test_whatever_was_uploaded_is_kept_at_24_khz(tmp_path: Path) -> None:
    store = VoiceStore(tmp_path)
    voice = add(store, audio=recording(2.0, rate_hz=44_100))
    assert voice.duration_s == 2.0
    assert store.reference("anna").samples.shape == (48_000,)
    assert store.reference("anna").x_vector_only  # nobody has said what is said in it


@pytest.mark.parametrize(
    "name",
    ["", ".", "..", "...", "../x", "a/b", "a\\b", "a.b", "/etc/passwd", "-x", "_x", "a b", "a\n", "a\0", "é", "ａ", "а",
     "x" * 65, "a\u202eb", "\ud800", "a:b", "~"],
)  # fmt: skip
def test_names_that_are_more_than_a_name_are_refused(tmp_path: Path, name: str) -> None:
    store = VoiceStore(tmp_path / "store")
    with pytest.raises(InvalidConfig, match=r"^name: "):
        add(store, name)
    assert files(tmp_path) == ["store"]
    assert files(tmp_path / "store") == []
    with pytest.raises(UnknownVoice):
        store.remove(name)
    with pytest.raises(UnknownVoice):
        store.reference(name)


@settings(max_examples=200)
@given(st.text(max_size=70))
def test_no_name_leads_out_of_the_folder(tmp_path_factory: pytest.TempPathFactory, name: str) -> None:
    folder = tmp_path_factory.getbasetemp() / "names"
    store = VoiceStore(folder)
    try:
        voice = add(store, name, b"not a recording")
    except InvalidConfig:
        assert files(folder) == []
    else:
        pytest.fail(f"kept {voice}")


def test_the_model_s_own_voices_are_not_taken(tmp_path: Path) -> None:
    store = VoiceStore(tmp_path, reserved=("af_heart", "Vivian"))
    for name in ("af_heart", "AF_Heart", "vivian"):
        with pytest.raises(VoiceExists, match="model's own"):
            add(store, name)


def test_names_that_differ_by_case_alone_are_one(tmp_path: Path) -> None:
    store = VoiceStore(tmp_path)
    add(store, "Anna")
    with pytest.raises(VoiceExists):
        add(store, "aNNA")
    assert store.reference("ANNA").key
    store.remove("anna")
    assert files(tmp_path) == []


@pytest.mark.parametrize("consent", ["", " ", "false", "No", "0", "null"])
def test_without_a_consent_nothing_is_kept(tmp_path: Path, consent: str) -> None:
    with pytest.raises(InvalidConfig, match=r"^consent: "):
        add(VoiceStore(tmp_path), consent=consent)
    assert files(tmp_path) == []


@pytest.mark.parametrize(
    ("audio", "words"),
    [
        (b"", "no wav"),
        (b"RIFF" + bytes(100), "no wav"),
        (recording(0.9), "shorter than 1 s"),
        (recording(3.1), "longer than 3 s"),
        (recording(1.0, hz=0.0), "silence"),
        (bytes(200_001), "at most 200000 bytes"),
    ],
)
def test_recordings_that_are_none_are_refused(tmp_path: Path, audio: bytes, words: str) -> None:
    store = VoiceStore(tmp_path, VoiceLimits(max_bytes=200_000, max_s=3.0))
    with pytest.raises(InvalidConfig, match=words):
        add(store, audio=audio)
    assert files(tmp_path) == []


@pytest.mark.parametrize("field", ["consent", "ref_text"])
@pytest.mark.parametrize("text", ["x" * 2001, "lone \ud800 surrogate"])
def test_texts_that_cannot_be_kept_are_refused(tmp_path: Path, field: str, text: str) -> None:
    with pytest.raises(InvalidConfig, match=f"^{field}: "):
        add(VoiceStore(tmp_path), **{field: text})  # type: ignore[arg-type]
    assert files(tmp_path) == []


def test_the_folder_has_an_end(tmp_path: Path) -> None:
    store = VoiceStore(tmp_path, VoiceLimits(max_voices=2))
    add(store, "a")
    add(store, "b")
    with pytest.raises(VoiceStoreFull):
        add(store, "c")
    store.remove("a")
    add(store, "c")
    # 1.5 s are 72 kB: a second does not fit.
    small = VoiceStore(tmp_path / "small", VoiceLimits(max_total_bytes=100_000))
    add(small, "a")
    with pytest.raises(VoiceStoreFull):
        add(small, "b")
    assert len(files(tmp_path / "small")) == 2


def test_a_removed_voice_is_gone_with_its_files(tmp_path: Path) -> None:
    store = VoiceStore(tmp_path)
    add(store)
    store.remove("anna")
    assert store.voices() == ()
    assert files(tmp_path) == []
    with pytest.raises(UnknownVoice):
        store.remove("anna")
    add(store)  # the name is free again


def test_of_many_who_upload_one_name_at_once_one_wins(tmp_path: Path) -> None:
    store = VoiceStore(tmp_path)
    recordings = [recording(1.0, hz) for hz in range(200, 216)]
    start = threading.Barrier(len(recordings))

    def upload(audio: bytes) -> StoredVoice | None:
        start.wait(20)
        try:
            return add(store, audio=audio)
        except VoiceExists:
            return None

    with ThreadPoolExecutor(len(recordings)) as pool:
        kept = [voice for voice in pool.map(upload, recordings) if voice is not None]
    assert len(kept) == 1
    assert VoiceStore(tmp_path).voices() == (kept[0],)
    assert len(files(tmp_path)) == 2


# -- Crashes ----------------------------------------------------------------------------------------------------------


class PowerFailure(BaseException):
    """Nothing after it happens, not even a clean-up."""


class FailingDisk:
    """Every call that reaches the disk counts; one of them is the last."""

    def __init__(self, patch: pytest.MonkeyPatch, last_call: int) -> None:
        self.calls = 0
        self._last_call = last_call
        for owner, name in ((os, "fsync"), (Path, "replace"), (Path, "unlink")):
            patch.setattr(owner, name, self._counted(getattr(owner, name)))

    def _counted(self, call: Callable[..., object]) -> Callable[..., object]:
        def counted(*args: object, **options: object) -> object:
            self.calls += 1
            if self.calls > self._last_call:
                raise PowerFailure
            return call(*args, **options)

        return counted


def changes(store: VoiceStore) -> Iterator[str]:
    add(store, "second", recording(1.0, 500.0))
    yield "added"
    store.remove("first")
    yield "removed"


@pytest.mark.parametrize("last_call", range(10))
def test_a_crash_at_any_moment_leaves_each_voice_whole_or_absent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, last_call: int
) -> None:
    store = VoiceStore(tmp_path)
    first = add(store, "first")
    done: list[str] = []
    with monkeypatch.context() as patch:
        disk = FailingDisk(patch, last_call)
        with contextlib.suppress(PowerFailure):
            done.extend(changes(store))
    assert (disk.calls > last_call) == (last_call < 9), "the test no longer crashes at every step"
    after = VoiceStore(tmp_path)
    assert after.problems == []
    names = {voice.name for voice in after.voices()}
    assert names <= {"first", "second"}
    assert "second" in names or "added" not in done
    assert "first" not in names or "removed" not in done
    assert "first" in names or "added" in done  # nothing but its own removal takes it
    for name in names:
        assert after.reference(name).samples.any()
    if "first" in names:
        assert after.find("first") == first
    assert len(files(tmp_path)) == 2 * len(names), "something is left of what never was"


def test_a_disk_that_is_full_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = VoiceStore(tmp_path)

    def full(_path: Path, target: Path) -> None:
        if target.suffix == ".json":
            raise OSError(28, "No space left on device")
        os.replace(_path, target)  # noqa: PTH105

    with monkeypatch.context() as patch:
        patch.setattr(Path, "replace", full)
        with pytest.raises(OSError, match="No space"):
            add(store)
    assert files(tmp_path) == []
    assert store.voices() == ()
    add(store)


def damage(folder: Path, what: str) -> None:
    metadata = next(folder.glob("anna.json"))
    audio = next(folder.glob("anna.*.wav"))
    match what:
        case "metadata cut":
            metadata.write_bytes(metadata.read_bytes()[:40])
        case "metadata emptied":
            metadata.write_bytes(b"")
        case "another name":
            metadata.write_bytes(metadata.read_bytes().replace(b'"anna"', b'"bert"'))
        case "a path for a name":
            metadata.write_bytes(metadata.read_bytes().replace(b'"anna"', b'"../anna"'))
        case "another version":
            metadata.write_bytes(metadata.read_bytes().replace(b'"version":1', b'"version":2'))
        case "no audio":
            audio.unlink()
        case "audio cut":
            audio.write_bytes(audio.read_bytes()[:-2])
        case "audio altered":
            data = bytearray(audio.read_bytes())
            data[1000] ^= 1
            audio.write_bytes(data)
        case "a folder":
            metadata.unlink()
            metadata.mkdir()


@pytest.mark.parametrize(
    "what",
    ["metadata cut", "metadata emptied", "another name", "a path for a name", "another version", "no audio",
     "audio cut", "audio altered", "a folder"],
)  # fmt: skip
def test_what_is_damaged_is_reported_and_passed_over(tmp_path: Path, what: str) -> None:
    store = VoiceStore(tmp_path)
    add(store)
    bert = add(store, "berta")
    damage(tmp_path, what)
    before = files(tmp_path)
    again = VoiceStore(tmp_path)
    assert again.voices() == (bert,)
    assert len(again.problems) == 1
    assert again.problems[0].startswith("anna.json: ")
    assert files(tmp_path) == before  # an operator may mend it
    with pytest.raises(VoiceExists):
        add(again)  # and nobody writes over it


def test_damage_under_a_running_store_is_told(tmp_path: Path) -> None:
    store = VoiceStore(tmp_path)
    add(store)
    damage(tmp_path, "audio altered")
    with pytest.raises(InvalidConfig, match="damaged"):
        store.reference("anna")
    damage(tmp_path, "no audio")
    with pytest.raises(InvalidConfig, match="damaged"):
        store.reference("anna")
    store.remove("anna")
    assert files(tmp_path) == []


def test_files_of_others_are_left_alone(tmp_path: Path) -> None:
    for name in ("README", "my.wav", "anna.wav", "notes.txt"):
        (tmp_path / name).write_text("mine")
    store = VoiceStore(tmp_path)
    add(store)
    store.remove("anna")
    VoiceStore(tmp_path)
    assert files(tmp_path) == ["README", "anna.wav", "my.wav", "notes.txt"]


def test_metadata_on_disk_is_plain_json(tmp_path: Path) -> None:
    add(VoiceStore(tmp_path), ref_text="Hé \U0001f600")
    fields = msgspec.json.decode((tmp_path / "anna.json").read_bytes())
    assert fields["consent"] == CONSENT
    assert fields["ref_text"] == "Hé \U0001f600"


# -- `ref_audio` ------------------------------------------------------------------------------------------------------


async def test_a_reference_is_found_by_name_in_the_message_or_fetched(tmp_path: Path) -> None:
    store = VoiceStore(tmp_path)
    add(store)
    asked: list[str] = []

    async def fetch(url: str) -> bytes:
        asked.append(url)
        return AUDIO

    references = References(store, fetch_url=fetch)
    stored = await references("voice:anna")
    sent = await references(f"data:audio/wav;base64,{base64.b64encode(AUDIO).decode()}")
    fetched = await references("https://example.org/anna.wav")
    np.testing.assert_array_equal(sent.samples, fetched.samples)
    np.testing.assert_allclose(stored.samples, sent.samples, atol=1e-4)
    assert sent.key == fetched.key
    assert asked == ["https://example.org/anna.wav"]


@pytest.mark.parametrize("value", ["voice:nobody", "voice:../anna", "http://127.0.0.1/", "AAAA", "", "voice:"])
async def test_a_reference_that_is_none_is_refused(tmp_path: Path, value: str) -> None:
    for store in (None, VoiceStore(tmp_path)):
        with pytest.raises(InvalidConfig):
            await References(store)(value)
