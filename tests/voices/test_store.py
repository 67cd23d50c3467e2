"""Store of uploaded voices: it survives crashes, refuses what is not allowed, and leaves no files behind."""

import contextlib
import errno
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
from realtime_tts.errors import InternalError, InvalidConfig, UnknownVoice, VoiceExists, VoiceStoreFull
from realtime_tts.voices.store import StoredVoice, VoiceLimits, VoiceStore

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


def test_a_voice_is_available_after_a_restart(tmp_path: Path) -> None:
    voice = add(VoiceStore(tmp_path / "new" / "folder"), ref_text=" What was said. ")
    again = VoiceStore(tmp_path / "new" / "folder")
    assert again.voices() == (voice,)
    assert again.skipped == []
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


def test_a_recording_of_any_rate_is_stored_at_24_khz(tmp_path: Path) -> None:
    store = VoiceStore(tmp_path)
    voice = add(store, audio=recording(2.0, rate_hz=44_100))
    assert voice.duration_s == 2.0
    assert store.reference("anna").samples.shape == (48_000,)
    assert store.reference("anna").x_vector_only  # there is no transcript


BAD_NAMES = [
    "", ".", "..", "...", "../x", "a/b", "a\\b", "a.b", "/etc/passwd", "-x", "_x", "a b", "a\n", "a\0", "é", "ａ", "а",
    "x" * 65, "a\u202eb", "\ud800", "a:b", "~",
]  # fmt: skip


def test_names_with_special_characters_are_refused(tmp_path: Path) -> None:
    store = VoiceStore(tmp_path / "store")
    for name in BAD_NAMES:
        with pytest.raises(InvalidConfig, match=r"^name: "):
            add(store, name)
        with pytest.raises(UnknownVoice):
            store.remove(name)
        with pytest.raises(UnknownVoice):
            store.reference(name)
        assert files(tmp_path) == ["store"], ascii(name)
        assert files(tmp_path / "store") == [], ascii(name)


@settings(max_examples=40)
@given(st.text(max_size=70))
def test_no_name_creates_a_file_without_a_recording(tmp_path_factory: pytest.TempPathFactory, name: str) -> None:
    folder = tmp_path_factory.getbasetemp() / "names"
    store = VoiceStore(folder)
    try:
        voice = add(store, name, b"not a recording")
    except InvalidConfig:
        assert files(folder) == []
    else:
        pytest.fail(f"stored {voice}")


def test_names_of_the_models_voices_are_refused(tmp_path: Path) -> None:
    store = VoiceStore(tmp_path, reserved=("af_heart", "Vivian"))
    for name in ("af_heart", "AF_Heart", "vivian"):
        with pytest.raises(VoiceExists, match="model's own"):
            add(store, name)


def test_names_that_differ_only_by_case_are_equal(tmp_path: Path) -> None:
    store = VoiceStore(tmp_path)
    add(store, "Anna")
    with pytest.raises(VoiceExists):
        add(store, "aNNA")
    assert store.reference("ANNA").key
    store.remove("anna")
    assert files(tmp_path) == []


def test_without_a_consent_nothing_is_stored(tmp_path: Path) -> None:
    for consent in ("", " ", "false", "No", "0", "null"):
        with pytest.raises(InvalidConfig, match=r"^consent: "):
            add(VoiceStore(tmp_path), consent=consent)
        assert files(tmp_path) == [], consent


def test_bad_recordings_are_refused(tmp_path: Path) -> None:
    store = VoiceStore(tmp_path, VoiceLimits(max_bytes=200_000, max_s=3.0))
    for audio, words in (
        (b"", "must be a wav"),
        (b"RIFF" + bytes(100), "must be a wav"),
        (recording(0.9), "shorter than 1 s"),
        (recording(3.1), "longer than 3 s"),
        (recording(1.0, hz=0.0), "silence"),
        (bytes(200_001), "at most 200000 bytes"),
    ):
        with pytest.raises(InvalidConfig, match=f"^ref_audio: .*{words}"):
            add(store, audio=audio)
        assert files(tmp_path) == [], words


def test_bad_texts_are_refused(tmp_path: Path) -> None:
    for field in ("consent", "ref_text"):
        for text in ("x" * 2001, "lone \ud800 surrogate"):
            with pytest.raises(InvalidConfig, match=f"^{field}: ") as refused:
                add(VoiceStore(tmp_path), **{field: text})  # type: ignore[arg-type]
            assert refused.value.param == field
            assert files(tmp_path) == [], (field, text[:10])


def test_the_number_and_the_size_of_voices_are_limited(tmp_path: Path) -> None:
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


def test_the_files_of_a_removed_voice_are_deleted(tmp_path: Path) -> None:
    store = VoiceStore(tmp_path)
    add(store)
    store.remove("anna")
    assert store.voices() == ()
    assert files(tmp_path) == []
    with pytest.raises(UnknownVoice):
        store.remove("anna")
    add(store)  # its name can be used again


def test_of_concurrent_uploads_with_one_name_one_succeeds(tmp_path: Path) -> None:
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
    """Nothing runs after it, not even clean-up code."""


class FailingDisk:
    """A disk that fails after a number of calls."""

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


def test_after_a_crash_at_any_moment_each_voice_is_complete_or_absent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for last_call in range(10):
        crash_after(last_call, tmp_path / str(last_call), monkeypatch)


def crash_after(last_call: int, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = VoiceStore(folder)
    first = add(store, "first")
    done: list[str] = []
    with monkeypatch.context() as patch:
        disk = FailingDisk(patch, last_call)
        with contextlib.suppress(PowerFailure):
            done.extend(changes(store))
    assert (disk.calls > last_call) == (last_call < 9), "the test no longer crashes at every step"
    after = VoiceStore(folder)
    assert after.skipped == []
    names = {voice.name for voice in after.voices()}
    assert names <= {"first", "second"}
    assert "second" in names or "added" not in done
    assert "first" not in names or "removed" not in done
    assert "first" in names or "added" in done  # only its own removal deletes it
    for name in names:
        assert after.reference(name).samples.any()
    if "first" in names:
        assert after.find("first") == first
    assert len(files(folder)) == 2 * len(names), "files without a voice are left"


def test_a_full_or_failing_disk_leaves_no_files_behind_and_one_line_in_the_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    store = VoiceStore(tmp_path)
    for number, expected in ((errno.ENOSPC, VoiceStoreFull), (errno.EROFS, InternalError)):

        def failing(_path: Path, target: Path, number: int = number) -> None:
            if target.suffix == ".json":
                raise OSError(number, os.strerror(number))
            os.replace(_path, target)  # noqa: PTH105

        with monkeypatch.context() as patch:
            patch.setattr(Path, "replace", failing)
            with pytest.raises(expected):
                add(store)
        assert files(tmp_path) == []
        assert store.voices() == ()
        (record,) = caplog.records
        assert record.getMessage() == f"no voice can be stored in {tmp_path}: {os.strerror(number)}"
        assert record.exc_info is None
        caplog.clear()
    add(store)


def damage(folder: Path, what: str) -> None:
    metadata = next(folder.glob("anna.json"))
    audio = next(folder.glob("anna.*.wav"))
    match what:
        case "metadata truncated":
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
        case "audio truncated":
            audio.write_bytes(audio.read_bytes()[:-2])
        case "audio altered":
            data = bytearray(audio.read_bytes())
            data[1000] ^= 1
            audio.write_bytes(data)
        case "a folder":
            metadata.unlink()
            metadata.mkdir()


DAMAGES = [
    "metadata truncated", "metadata emptied", "another name", "a path for a name", "another version", "no audio",
    "audio truncated", "audio altered", "a folder",
]  # fmt: skip


def test_a_damaged_voice_is_reported_and_skipped(tmp_path: Path) -> None:
    for what in DAMAGES:
        folder = tmp_path / what
        store = VoiceStore(folder)
        add(store)
        berta = add(store, "berta")
        damage(folder, what)
        before = files(folder)
        again = VoiceStore(folder)
        assert again.voices() == (berta,), what
        assert [each.partition(":")[0] for each in again.skipped] == ["anna.json"], what
        assert files(folder) == before, what  # an operator may repair it
        with pytest.raises(VoiceExists):
            add(again)  # and it is not overwritten


def test_damage_under_a_running_store_is_reported(tmp_path: Path) -> None:
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


def test_other_files_are_not_touched(tmp_path: Path) -> None:
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
