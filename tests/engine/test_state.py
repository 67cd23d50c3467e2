"""State: payloads that are kept only while needed, and deadlines that follow the listener."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from realtime_tts.engine.stage import host_array
from realtime_tts.engine.state import PayloadBuffer, RequestState, StageProgress, Stream, deadline_s
from tests.fakes import request


@given(st.lists(st.integers(0, 7), min_size=1, max_size=20), st.data())
def test_a_buffer_returns_what_was_appended_also_after_dropping(lengths: list[int], data: st.DataObject) -> None:
    buffer, whole = PayloadBuffer(), np.arange(sum(lengths) * 2).reshape(-1, 2)
    position = 0
    kept_from = 0
    for length in lengths:
        buffer.append(whole[position : position + length])
        position += length
        if position > kept_from:
            start = data.draw(st.integers(kept_from, position - 1))
            assert np.array_equal(host_array(buffer.slice(start, position)), whole[start:position])
            kept_from = start
            buffer.drop_before(kept_from)
    assert buffer.count == len(whole)


def test_a_buffer_forgets_dropped_rows() -> None:
    buffer = PayloadBuffer()
    for _ in range(100):
        buffer.append(np.zeros((1, 3)))
    buffer.drop_before(90)
    with pytest.raises(AssertionError):
        buffer.slice(10, 20)
    assert host_array(buffer.slice(90, 100)).shape == (10, 3)
    assert buffer.emptied().count == 0


def state(stream: Stream, number: int, *, submitted_s: float, frames: int = 0, out: int = 0, sent: int = 0) -> None:
    progress = (StageProgress(), StageProgress())
    progress[0].output.append(np.zeros((frames, 1)))
    stream.requests.append(
        RequestState(
            request(number, stream=stream.stream_id),
            number,
            submitted_s,
            stream,
            progress,
            samples_out=out,
            samples_sent=sent,
        )
    )


def deadline(stream: Stream, index: int) -> float:
    return deadline_s(stream.requests[index], first_audio_target_s=0.25, samples_per_frame=100, sample_rate_hz=1000)


def test_the_deadline_of_a_listener_without_audio_is_the_first_audio_target() -> None:
    stream = Stream("s")
    state(stream, 0, submitted_s=10.0)
    assert deadline(stream, 0) == pytest.approx(10.25)


def test_a_playing_listener_runs_dry_where_its_sent_audio_ends() -> None:
    stream = Stream("s", playout_end_s=12.0)
    state(stream, 0, submitted_s=10.0, frames=50, out=800, sent=800)
    assert deadline(stream, 0) == pytest.approx(12.0)


def test_audio_that_waits_to_be_sent_counts_as_lead() -> None:
    stream = Stream("s", playout_end_s=12.0)
    state(stream, 0, submitted_s=10.0, frames=50, out=800, sent=500)
    assert deadline(stream, 0) == pytest.approx(12.3)


def test_the_next_sentence_is_due_when_the_one_before_it_has_played() -> None:
    stream = Stream("s", playout_end_s=12.0)
    state(stream, 0, submitted_s=10.0, frames=50, out=800, sent=500)
    state(stream, 1, submitted_s=10.1)
    assert deadline(stream, 1) == pytest.approx(12.0 + (50 * 100 - 500) / 1000)


def test_withheld_silence_gives_no_lead() -> None:
    stream = Stream("s", playout_end_s=12.0)
    state(stream, 0, submitted_s=10.0, frames=50, out=700, sent=500)
    stream.requests[0].samples_withheld = 100
    state(stream, 1, submitted_s=10.1)
    assert deadline(stream, 1) == pytest.approx(12.0 + (50 * 100 - 100 - 500) / 1000)


def test_a_listener_whose_audio_ended_before_counts_from_the_new_request() -> None:
    stream = Stream("s", playout_end_s=12.0)
    state(stream, 7, submitted_s=60.0)
    assert deadline(stream, 0) == pytest.approx(60.25)
