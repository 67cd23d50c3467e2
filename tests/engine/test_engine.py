"""Engine loop: exact audio, one end for every request, no leaks, and failures that stay with their request."""

import dataclasses
import itertools
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from realtime_tts.clock import VirtualClock
from realtime_tts.engine.api import (
    AudioReady,
    Cancel,
    CodesReady,
    Extend,
    FinishReason,
    RequestFinished,
    Resume,
    Submit,
    SynthesisRequest,
)
from realtime_tts.engine.config import EngineConfig
from realtime_tts.engine.models import tone
from realtime_tts.engine.scheduling.chunking import ChunkPlan
from realtime_tts.engine.scheduling.policy import SCHEDULERS
from realtime_tts.engine.stage import Model, Stage, StageInput, StageOutput, host_array, pack_codes
from realtime_tts.errors import EngineUnavailable, Overloaded, SynthesisFailed
from tests.fakes import (
    ends_of,
    make_engine,
    make_held_engine,
    raises_for,
    request,
    run_to_end,
    run_to_end_held,
    samples_of,
    slots,
    with_stage,
    wrapped,
)


@given(
    texts=st.lists(st.text(min_size=1, max_size=60), min_size=1, max_size=6),
    max_batch=st.integers(1, 4),
    shared=st.booleans(),
)
@settings(deadline=None, max_examples=40)
def test_streamed_audio_is_the_whole_audio_for_every_request(texts: list[str], max_batch: int, shared: bool) -> None:
    model = tone.build(max_batch=max_batch, shared_lane=shared)
    engine, events = make_engine(model)
    requests = [request(i, text) for i, text in enumerate(texts)]
    for each in requests:
        engine.handle(Submit(each))
    run_to_end(engine)
    for each in requests:
        assert np.array_equal(np.concatenate(samples_of(events, each.request_id)), tone.render(each))
        (end,) = ends_of(events, each.request_id)
        assert end.reason is FinishReason.COMPLETE
        assert end.error is None
    assert slots(model) == 0
    assert engine.status().active_requests == 0


@given(data=st.data())
@settings(deadline=None, max_examples=60)
def test_a_cancel_at_any_moment_frees_everything_and_affects_no_other(data: st.DataObject) -> None:
    """Queued, prefilled, in a batch, decoding or finished: with any number of batches in flight."""
    thinker, replicas = data.draw(st.booleans()), data.draw(st.integers(1, 2))
    model = tone.build(max_batch=3, thinker=thinker, replicas=replicas)
    engine, events, executor = make_held_engine(model)
    requests = [request(i, "x" * (5 + 9 * i)) for i in range(4)]
    for each in requests:
        engine.handle(Submit(each))
    cancelled = data.draw(st.sets(st.integers(0, 3), min_size=1))
    moments = {number: data.draw(st.integers(0, 60)) for number in cancelled}
    for moment in range(400):
        for number, at in moments.items():
            if at == moment:
                engine.handle(Cancel(f"r{number}"))
        if data.draw(st.booleans()):
            executor.run_all()
        if not engine.step() and not executor.held:
            break
    executor.run_all()
    run_to_end_held(engine, executor)
    for number, each in enumerate(requests):
        (end,) = ends_of(events, each.request_id)
        if number not in cancelled:
            assert end.reason is FinishReason.COMPLETE
        if end.reason is FinishReason.COMPLETE:
            spoken = dataclasses.replace(each, text=tone.answer(each.text)) if thinker else each
            assert np.array_equal(np.concatenate(samples_of(events, each.request_id)), tone.render(spoken))
        assert events.index(end) == max(i for i, event in enumerate(events) if event.request_id == each.request_id)
    assert slots(model) == 0
    assert all(not any(lanes.values()) for lanes in engine._table.open_requests)


def test_a_stage_that_raises_fails_its_own_requests_only() -> None:
    for stage in ("thinker", "talker", "code2wav"):
        inner = tone.build(max_batch=1, thinker=True)
        engine, events = make_engine(wrapped(inner, stage, raises_for("bad")))
        for number, text in enumerate(["good", "bad", "fine"]):
            engine.handle(Submit(request(number, text)))
        run_to_end(engine)
        ends = [ends_of(events, f"r{i}")[0] for i in range(3)]
        assert [end.reason for end in ends] == ["complete", "error", "complete"], stage
        assert isinstance(ends[1].error, SynthesisFailed), stage
        assert slots(inner) == 0, stage
        engine.handle(Submit(request(9, "again")))
        run_to_end(engine)
        assert ends_of(events, "r9")[0].reason is FinishReason.COMPLETE, stage


def test_a_stage_that_hangs_fails_its_requests_and_readiness_until_it_returns() -> None:
    model, clock = tone.build(), VirtualClock()
    engine, events, executor = make_held_engine(model, clock=clock)
    engine.handle(Submit(request(0)))
    engine.step()
    clock.advance(29.9)
    engine.step()
    assert engine.status().ready
    assert engine.next_timeout_s() == pytest.approx(0.1)
    clock.advance(0.2)
    engine.step()
    assert not engine.status().ready
    assert "talker" in engine.status().reason
    assert isinstance(ends_of(events, "r0")[0].error, SynthesisFailed)
    engine.handle(Submit(request(1)))
    engine.step()
    assert isinstance(ends_of(events, "r1")[0].error, EngineUnavailable)
    executor.run_all()
    run_to_end_held(engine, executor)
    assert engine.status().ready
    assert slots(model) == 0
    engine.handle(Submit(request(2)))
    run_to_end_held(engine, executor)
    assert ends_of(events, "r2")[0].reason is FinishReason.COMPLETE


def test_one_request_too_many_is_refused_before_any_audio_and_the_others_continue() -> None:
    engine, events, _executor = make_held_engine(tone.build(), config=EngineConfig(max_requests=2))
    for number in range(3):
        engine.handle(Submit(request(number)))
    engine.step()
    assert [type(end.error) for end in ends_of(events, "r2")] == [Overloaded]
    assert engine.status().active_requests == 2


def test_wrong_sample_counts_from_a_model_never_reach_a_listener() -> None:
    model = tone.build()
    code2wav = model.stage("code2wav")
    assert isinstance(code2wav, tone.Code2Wav)
    code2wav._decode = lambda row: StageOutput(np.zeros(7, np.float32))  # type: ignore[method-assign]
    engine, events = make_engine(model)
    engine.handle(Submit(request(0)))
    run_to_end(engine)
    assert samples_of(events, "r0") == []
    assert ends_of(events, "r0")[0].reason is FinishReason.ERROR
    assert slots(model) == 0


def test_metrics_separate_queue_time_work_and_audio() -> None:
    clock = VirtualClock()
    model = tone.build(costs=tone.ToneCosts(a0_s=0.01, a1_s=0.02), wait_s=clock.advance)
    engine, events = make_engine(model, clock=clock, config=EngineConfig(scheduler="policy_c"))
    engine.handle(Submit(request(0, "x" * 50)))  # 40 frames: chunks of 2, 25, and the last 13
    clock.advance(1.0)
    run_to_end(engine)
    metrics = ends_of(events, "r0")[0].metrics
    assert metrics is not None
    assert metrics.queue_s == pytest.approx(1.0)
    assert metrics.synthesis_s == pytest.approx(40 * 0.01 + 3 * 0.02)
    assert metrics.audio_s == pytest.approx(40 * 0.08)
    assert metrics.chunks == 3
    assert metrics.initial_chunk_frames == 2
    assert metrics.rtf == pytest.approx(0.46 / 3.2)


def test_any_initial_chunk_that_a_client_may_ask_for_completes() -> None:
    """Also one beyond the usual limit of pending frames: the frame stage must continue until it is complete."""
    for scheduler, frames in itertools.product(SCHEDULERS, (1, 49, 50, 51, 100, 1000)):
        engine, events = make_engine(tone.build(), config=EngineConfig(scheduler=scheduler))
        asked = dataclasses.replace(request(0, "x" * 300), initial_codec_chunk_frames=frames, streamed=False)
        engine.handle(Submit(asked))
        run_to_end(engine)
        (end,) = ends_of(events, "r0")
        assert end.reason is FinishReason.COMPLETE, (scheduler, frames)
        assert end.metrics is not None
        assert end.metrics.initial_chunk_frames == min(frames, 240), (scheduler, frames)


def test_a_request_that_waits_for_its_text_costs_nothing_and_continues_when_it_comes() -> None:
    launches = 0

    def count(_batch: Sequence[StageInput]) -> None:
        nonlocal launches
        launches += 1

    engine, events = make_engine(wrapped(tone.build(reads_ahead=True), "talker", count))
    whole = request(0, "This is the whole text of it.")
    engine.handle(Submit(dataclasses.replace(whole, text=whole.text[:11], text_complete=False)))
    while engine.step():
        pass
    assert not any(isinstance(event, RequestFinished) for event in events)
    launched = launches
    for _ in range(20):
        engine.step()
    assert launches == launched, "it is not launched again and again"
    engine.handle(Extend("r0", whole.text[11:20], False))
    engine.handle(Extend("unknown", "text", True))
    engine.handle(Extend("r0", whole.text[20:], True))
    run_to_end(engine)
    assert np.array_equal(np.concatenate([e.samples for e in events if isinstance(e, AudioReady)]), tone.render(whole))


def test_text_received_while_a_step_runs_is_not_missed() -> None:
    engine, events, executor = make_held_engine(tone.build(reads_ahead=True))
    whole = request(0, "Short text.")
    engine.handle(Submit(dataclasses.replace(whole, text="S", text_complete=False)))
    engine.step()
    engine.handle(Extend("r0", whole.text[1:], True))  # the step that runs has not read it, and returns starved
    for _ in range(100):
        executor.run_all()
        engine.step()
    assert [event.reason for event in events if isinstance(event, RequestFinished)] == [FinishReason.COMPLETE]


def test_a_request_that_waits_for_its_text_can_be_cancelled() -> None:
    model = tone.build(reads_ahead=True)
    engine, events = make_engine(model)
    engine.handle(Submit(dataclasses.replace(request(0), text="Hel", text_complete=False)))
    while engine.step():
        pass
    engine.handle(Cancel("r0"))
    engine.handle(Extend("r0", "lo.", True))
    engine.step()
    assert [event.reason for event in events if isinstance(event, RequestFinished)] == [FinishReason.CANCELLED]
    assert slots(model) == 0


# -- Leading silence, and retries --------------------------------------------------------------------------------------


def silent_model(silent_frames: int, quiet_frames: int, **options: object) -> Model:
    """The tone model, declared to begin with silence; its first `quiet_frames` frames are silent."""
    model = tone.build(**options)  # type: ignore[arg-type]
    code2wav = model.stage("code2wav")
    assert isinstance(code2wav, tone.Code2Wav)
    decode = code2wav._decode

    def hushed(row: StageInput) -> StageOutput:
        output = decode(row)
        assert row.chunk is not None
        values = np.array(host_array(output.values), np.float32)
        values[: max(0, quiet_frames - row.chunk.start) * model.info.samples_per_frame] *= 1e-6
        return dataclasses.replace(output, values=values)

    code2wav._decode = hushed  # type: ignore[method-assign]
    info = dataclasses.replace(model.info, silent_frames=silent_frames, fields=frozenset())
    return dataclasses.replace(model, info=info)


def test_leading_silence_is_not_played_where_it_is_silent() -> None:
    cases = [(1, 1, 1), (1, 0, 0), (1, 3, 1), (2, 1, 1), (2, 2, 2)]
    for (silent, quiet, withheld), first_chunk in itertools.product(cases, (None, 1, 5)):
        case = silent, quiet, first_chunk
        engine, events = make_engine(silent_model(silent, quiet))
        asked = dataclasses.replace(request(0, "x" * 60), initial_codec_chunk_frames=first_chunk)
        engine.handle(Submit(asked))
        run_to_end(engine)
        whole = tone.render(asked)
        whole[: quiet * 1920] *= 1e-6
        chunks = samples_of(events, "r0")
        assert np.array_equal(np.concatenate(chunks), whole[withheld * 1920 :]), case
        if first_chunk is not None:
            assert len(chunks[0]) == (first_chunk + silent - withheld) * 1920, case
        metrics = ends_of(events, "r0")[0].metrics
        assert metrics is not None
        assert metrics.audio_s == pytest.approx(len(whole) / 24_000 - withheld * 0.08), case


def test_speech_that_is_all_silence_is_played_to_its_last_frame() -> None:
    for text in ("x", "xx", "x" * 3):
        engine, events = make_engine(silent_model(2, 100))
        engine.handle(Submit(request(0, text)))
        run_to_end(engine)
        frames = len(tone.render(request(0, text))) // 1920
        assert len(np.concatenate(samples_of(events, "r0"))) == 1920 * (frames - min(2, frames - 1)), text
        assert ends_of(events, "r0")[0].reason is FinishReason.COMPLETE, text


def test_any_initial_chunk_completes_after_leading_silence() -> None:
    for scheduler, frames in itertools.product(SCHEDULERS, (49, 50, 51, 1000)):
        engine, events = make_engine(silent_model(2, 2), config=EngineConfig(scheduler=scheduler))
        asked = dataclasses.replace(request(0, "x" * 300), initial_codec_chunk_frames=frames, streamed=False)
        engine.handle(Submit(asked))
        run_to_end(engine)
        assert ends_of(events, "r0")[0].reason is FinishReason.COMPLETE, (scheduler, frames)
        assert len(samples_of(events, "r0")[0]) == min(frames, 238) * 1920, (scheduler, frames)


def test_audio_that_is_not_played_adds_no_lead() -> None:
    engine, events, executor = make_held_engine(silent_model(2, 2))
    engine.handle(Submit(request(0, "x" * 40, stream="s")))
    while not samples_of(events, "r0"):
        executor.run_all()
        engine.step()
    state = engine._table.requests["r0"]
    assert state.samples_unsent == sum(map(len, samples_of(events, "r0")))
    assert state.samples_out == state.decoder.consumed * 1920 - 2 * 1920


class BreaksOff:
    """The tone model's Talker, which breaks off after some frames; a retry succeeds after so many failures."""

    def __init__(self, inner: Stage, after_frames: int, failures: int = 1) -> None:
        self.inner = inner
        self.after = after_frames
        self.failures = failures
        self.made = 0

    def run(self, batch: Sequence[StageInput]) -> Sequence[StageOutput]:
        (row,) = batch
        if row.retry:
            assert self.failures
            self.failures -= 1
            self.made = 0
            self.inner.release(row.request.request_id)
        (output,) = self.inner.run(batch)
        self.made += 1
        if self.failures and self.made == self.after:
            noise = np.zeros_like(host_array(output.values))
            return [dataclasses.replace(output, values=noise, finished=True, truncated=True, can_retry=True)]
        return [output]

    def release(self, request_id: str) -> None:
        self.inner.release(request_id)


def breaking(after_frames: int, failures: int = 1, *, thinker: bool = False) -> Model:
    model = tone.build(thinker=thinker)
    return with_stage(model, "talker", BreaksOff(model.stage("talker"), after_frames, failures))


def test_speech_that_broke_off_before_any_of_it_was_decoded_is_retried() -> None:
    """Behind a Thinker the Talker gets all of the text again."""
    for thinker, after_frames, failures in itertools.product((False, True), (1, 5, 19), (1, 3)):
        case = thinker, after_frames, failures
        engine, events = make_engine(breaking(after_frames, failures, thinker=thinker))
        asked = dataclasses.replace(request(0, "x" * 60), initial_codec_chunk_frames=20)
        engine.handle(Submit(asked))
        run_to_end(engine)
        whole = dataclasses.replace(asked, text=tone.answer(asked.text)) if thinker else asked
        assert np.array_equal(np.concatenate(samples_of(events, "r0")), tone.render(whole)), case
        (end,) = ends_of(events, "r0")
        assert (end.reason, end.error) == (FinishReason.COMPLETE, None), case


def test_speech_that_broke_off_later_is_truncated() -> None:
    for after_frames in (5, 20):
        engine, events = make_engine(breaking(after_frames))
        engine.handle(Submit(dataclasses.replace(request(0, "x" * 60), initial_codec_chunk_frames=2)))
        run_to_end(engine)
        assert len(np.concatenate(samples_of(events, "r0"))) == after_frames * 1920, after_frames
        assert ends_of(events, "r0")[0].reason is FinishReason.TRUNCATED, after_frames


def test_a_decode_that_has_begun_prevents_a_retry() -> None:
    engine, events, executor = make_held_engine(breaking(3))
    engine.handle(Submit(dataclasses.replace(request(0, "x" * 60), initial_codec_chunk_frames=2)))
    for _ in range(2):
        engine.step()
        executor.run_all()
    engine.step()
    assert len(executor.held) == 2, "the Talker's third frame, and the decode of the first two"
    executor.run_first()
    engine.step()
    run_to_end_held(engine, executor)
    assert len(np.concatenate(samples_of(events, "r0"))) == 3 * 1920
    assert ends_of(events, "r0")[0].reason is FinishReason.TRUNCATED


# -- Costs -------------------------------------------------------------------------------------------------------------


class ReadsFirst:
    """The tone model's Talker, which reads each prompt in three runs first; each of them takes 0.5 s, a step 0.01 s."""

    RUNS = 3

    def __init__(self, inner: Stage, clock: VirtualClock) -> None:
        self.inner = inner
        self.clock = clock
        self.read: dict[str, int] = {}

    def run(self, batch: Sequence[StageInput]) -> Sequence[StageOutput]:
        (row,) = batch
        runs = self.read[row.request.request_id] = self.read.get(row.request.request_id, 0) + 1
        if runs <= self.RUNS:
            self.clock.advance(0.5)
        if runs < self.RUNS:
            return [StageOutput(np.empty((0, 1), np.float32), stepped=False, prefilled=True)]
        self.clock.advance(0.01)
        (output,) = self.inner.run(batch)
        return [dataclasses.replace(output, prefilled=runs == self.RUNS)]

    def release(self, request_id: str) -> None:
        self.inner.release(request_id)


class SkipsSilence:
    """A Code2Wav for which a frame takes 0.004 s, one of context 0.001 s; half of each chunk is silence, or all."""

    def __init__(self, clock: VirtualClock) -> None:
        self.clock = clock

    def run(self, batch: Sequence[StageInput]) -> Sequence[StageOutput]:
        ((chunk, frames),) = ((row.chunk, row.values) for row in batch)
        assert chunk is not None
        assert frames is not None
        skipped = chunk.frames if chunk.frames % 4 == 0 else chunk.frames // 2
        if skipped < chunk.frames:
            self.clock.advance(0.02 + 0.004 * (chunk.frames - skipped) + 0.001 * (len(frames) - chunk.frames))
        return [StageOutput(np.zeros(chunk.frames * 1920, np.float32), skipped_frames=skipped)]

    def release(self, request_id: str) -> None:
        pass


def test_the_cost_of_a_decode_is_learned_from_the_frames_that_it_decoded() -> None:
    clock = VirtualClock()
    model = tone.build(wait_s=lambda _seconds: None)
    plan = ChunkPlan(sizes=(25,), left_context_frames=8, right_context_frames=4, context_cost=0.25)
    specs = (model.specs[0], dataclasses.replace(model.specs[1], max_batch=1))
    model = with_stage(dataclasses.replace(model, specs=specs, chunk_plan=plan), "code2wav", SkipsSilence(clock))
    engine, _events = make_engine(model, clock=clock, config=EngineConfig(max_wait_s=None))
    for number in range(60):
        engine.handle(Submit(request(number, "x" * (3 + 5 * (number % 12)))))
        run_to_end(engine)
    costs = engine.status().costs
    assert costs is not None
    assert dataclasses.astuple(costs.decode) == pytest.approx((0.02, 0.004), rel=0.1)


def test_reading_a_prompt_is_not_learned_as_the_cost_of_a_step() -> None:
    clock = VirtualClock()
    model = tone.build(costs=tone.ToneCosts(a0_s=0.01), wait_s=lambda _seconds: None)
    model = with_stage(model, "talker", ReadsFirst(model.stage("talker"), clock))
    engine, _events = make_engine(model, clock=clock, config=EngineConfig(max_wait_s=None))
    for number in range(40):
        engine.handle(Submit(request(number, "x" * 12)))
        run_to_end(engine)
    costs = engine.status().costs
    assert costs is not None
    assert costs.frame(1) == pytest.approx(0.01, rel=1e-3)
    assert costs.prefill_s == pytest.approx(0.5, rel=0.02)
    assert costs.frames_per_row == pytest.approx(1.0)


# -- Requests that another engine had begun ----------------------------------------------------------------------------


def resumed(frames: int, coded_frames: int, *, last_sample: float = 0.0) -> SynthesisRequest:
    """A request of which so many frames were received, and the codes of so many."""
    asked = dataclasses.replace(request(0, "x" * 80), wants_codes=True)
    codes = pack_codes(tone.codes(asked)[:coded_frames])
    samples = frames * tone.SAMPLES_PER_FRAME
    return dataclasses.replace(asked, resume=Resume(samples, samples, 0, 0.0, last_sample, codes))


def test_a_resumed_request_repeats_no_sample_and_makes_only_frames_without_codes() -> None:
    for frames, coded_frames in ((0, 0), (5, 0), (5, 3), (20, 24), (30, 64), (63, 64)):
        asked, model = resumed(frames, coded_frames), tone.build()
        engine, events = make_engine(model)
        engine.handle(Submit(asked))
        run_to_end(engine)
        found = np.concatenate(samples_of(events, "r0"))
        case = frames, coded_frames
        assert np.array_equal(found, tone.render(asked)[frames * tone.SAMPLES_PER_FRAME :]), case
        assert ends_of(events, "r0")[0].reason is FinishReason.COMPLETE, case
        reported = [event for event in events if isinstance(event, CodesReady)]
        assert asked.resume is not None
        known = asked.resume.codes
        for event in reported:
            assert event.offset == len(known), case
            known += event.codes
        assert known == pack_codes(tone.codes(asked)), case
        assert slots(model) == 0


def test_a_resumed_request_whose_text_has_all_become_codes_waits_for_more_text() -> None:
    asked = resumed(20, 32)
    engine, events = make_engine(tone.build())
    engine.handle(Submit(dataclasses.replace(asked, text="x" * 40, text_complete=False)))
    run_to_end(engine)
    assert not ends_of(events, "r0")
    engine.handle(Extend("r0", "x" * 40, complete=True))
    run_to_end(engine)
    found = np.concatenate(samples_of(events, "r0"))
    assert np.array_equal(found, tone.render(asked)[20 * tone.SAMPLES_PER_FRAME :])


def test_codes_that_no_engine_made_fail_their_own_request_only() -> None:
    asked = resumed(2, 10)
    assert asked.resume is not None
    for codes in (b"x", b"xy", b"\xff" * 6, b"\x40\x00" * 3, asked.resume.codes * 9):
        model = tone.build()
        engine, events = make_engine(model)
        engine.handle(Submit(dataclasses.replace(asked, resume=dataclasses.replace(asked.resume, codes=codes))))
        engine.handle(Submit(request(1)))
        run_to_end(engine)
        assert isinstance(ends_of(events, "r0")[0].error, SynthesisFailed), codes
        assert ends_of(events, "r1")[0].reason is FinishReason.COMPLETE, codes
        assert slots(model) == 0


def test_what_is_repeated_is_decoded_in_as_few_chunks_as_possible() -> None:
    for coded_frames in (0, 40):
        engine, _events, executor = make_held_engine(tone.build())
        engine.handle(Submit(resumed(32, coded_frames)))
        chunks = []
        while engine.step() or executor.held:
            chunks += [row.chunk for launch in executor.held for row in launch.inputs if row.chunk is not None]
            executor.run_all()
        assert [chunk.frames for chunk in chunks][:2] == [25, 17 if coded_frames else 8], coded_frames


def test_the_step_to_what_the_listener_has_is_faded() -> None:
    """Of a model that makes its audio again with other samples; without a step nothing is changed."""
    asked = resumed(10, 0)
    whole = tone.render(asked)
    joint = 10 * tone.SAMPLES_PER_FRAME
    for step in (0.0, 0.2):
        inner = tone.build()
        model = dataclasses.replace(inner, info=dataclasses.replace(inner.info, resume_fade_s=0.005))
        engine, events = make_engine(model)
        engine.handle(Submit(resumed(10, 0, last_sample=float(whole[joint - 1]) + step)))
        run_to_end(engine)
        found = np.concatenate(samples_of(events, "r0"))
        expected = whole[joint:].copy()
        expected[:120] += np.linspace(step, 0.0, 120, dtype=np.float32)
        np.testing.assert_allclose(found, expected, atol=1e-6)
