"""What the engine remembers: frames kept only while needed, and deadlines that follow the listener."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from realtime_tts.engine.state import FrameBuffer, RequestState, StageProgress, Stream, deadline_s
from tests.fakes import request


@given(st.lists(st.integers(0, 7), min_size=1, max_size=20), st.data())
def test_a_buffer_gives_back_what_was_appended_also_after_dropping(lengths: list[int], data: st.DataObject) -> None:
    buffer, whole = FrameBuffer(), np.arange(sum(lengths) * 2).reshape(-1, 2)
    position = 0
    kept_from = 0
    for length in lengths:
        buffer.append(whole[position : position + length])
        position += length
        if position > kept_from:
            start = data.draw(st.integers(kept_from, position - 1))
            assert np.array_equal(buffer.slice(start, position), whole[start:position])
            kept_from = start
            buffer.drop_before(kept_from)
    assert buffer.count == len(whole)


def test_a_buffer_forgets_frames_that_nobody_will_ask_for() -> None:
    buffer = FrameBuffer()
    for _ in range(100):
        buffer.append(np.zeros((1, 3)))
    buffer.drop_before(90)
    with pytest.raises(AssertionError):
        buffer.slice(10, 20)
    assert buffer.slice(90, 100).shape == (10, 3)


def state(stream: Stream, number: int, *, submitted_s: float, frames: int = 0, out: int = 0, routed: int = 0) -> None:
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
            samples_routed=routed,
        )
    )


def deadline(stream: Stream, index: int) -> float:
    return deadline_s(stream.requests[index], first_audio_target_s=0.25, samples_per_frame=100, sample_rate_hz=1000)


def test_an_unstarted_listener_waits_for_its_first_audio_target() -> None:
    stream = Stream("s")
    state(stream, 0, submitted_s=10.0)
    assert deadline(stream, 0) == pytest.approx(10.25)


def test_a_speaking_listener_runs_dry_where_its_routed_audio_ends() -> None:
    stream = Stream("s", playout_end_s=12.0)
    state(stream, 0, submitted_s=10.0, frames=50, out=800, routed=800)
    assert deadline(stream, 0) == pytest.approx(12.0)


def test_audio_that_waits_in_the_session_is_not_urgent_again() -> None:
    stream = Stream("s", playout_end_s=12.0)
    state(stream, 0, submitted_s=10.0, frames=50, out=800, routed=500)
    assert deadline(stream, 0) == pytest.approx(12.3)


def test_the_next_sentence_is_due_when_the_one_before_it_has_been_heard() -> None:
    stream = Stream("s", playout_end_s=12.0)
    state(stream, 0, submitted_s=10.0, frames=50, out=800, routed=500)
    state(stream, 1, submitted_s=10.1)
    assert deadline(stream, 1) == pytest.approx(12.0 + (50 * 100 - 500) / 1000)


def test_silence_that_is_not_played_keeps_nobody_waiting() -> None:
    stream = Stream("s", playout_end_s=12.0)
    state(stream, 0, submitted_s=10.0, frames=50, out=700, routed=500)
    stream.requests[0].samples_withheld = 100
    state(stream, 1, submitted_s=10.1)
    assert deadline(stream, 1) == pytest.approx(12.0 + (50 * 100 - 100 - 500) / 1000)


def test_a_listener_who_comes_back_after_silence_is_a_new_start() -> None:
    stream = Stream("s", playout_end_s=12.0)
    state(stream, 7, submitted_s=60.0)
    assert deadline(stream, 0) == pytest.approx(60.25)
