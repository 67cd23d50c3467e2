"""Stages of the test model: what each step gives, and what it waits for."""

import dataclasses

import numpy as np
import pytest

from realtime_tts.engine.models.tone.stages import Code2Wav, Talker, Thinker, ThinkerCosts, ToneCosts
from realtime_tts.engine.models.tone.waveform import answer, codes, words
from realtime_tts.engine.scheduling.chunking import ChunkPlan
from realtime_tts.engine.stage import StageInput, host_array
from tests.fakes import request


def test_all_words_come_with_the_first_frame() -> None:
    row = StageInput(request(0, "Two words."))
    talker = Talker(ToneCosts(), lambda _seconds: None, after_thinker=False)
    given = [talker.run([row])[0].words for _ in range(3)]
    assert given == [words(row.request), (), ()]
    assert [(word.start, word.end) for word in given[0]] == [(0, 3), (4, 10)]
    assert given[0][1].end_s == 8 * 0.08


def test_costs_are_waited_as_set() -> None:
    waited: list[float] = []
    costs = ToneCosts(a0_s=1.0, b0_s=0.1, prefill_s=10.0, a1_s=2.0, b1_s=0.5)
    talker = Talker(costs, waited.append, after_thinker=False)
    rows = [StageInput(request(i)) for i in range(3)]
    talker.run(rows)
    talker.run(rows)
    thinker = Thinker(ThinkerCosts(3.0, 0.2, 7.0), waited.append)
    thinker.run(rows)
    thinker.run(rows)
    frames = codes(request())
    chunk = next(ChunkPlan((4,)).ramp(len(frames)))
    Code2Wav(costs, waited.append).run([StageInput(request(), frames[:4], chunk)])
    assert waited == pytest.approx([31.3, 1.3, 24.6, 3.6, 4.0])


def test_a_thinker_waits_for_the_whole_question_and_writes_the_answer() -> None:
    thinker = Thinker(ThinkerCosts(), lambda _seconds: None)
    asked = request(0, "Why is that? 😀")
    (waiting,) = thinker.run([StageInput(dataclasses.replace(asked, text="Why", text_complete=False))])
    assert (waiting.starved, waiting.finished, len(waiting.values)) == (True, False, 0)
    outputs = [thinker.run([StageInput(asked)])[0]]
    while not outputs[-1].finished:
        outputs += thinker.run([StageInput(asked)])
    assert "".join(output.text for output in outputs) == answer(asked.text)
    assert sum(len(output.values) for output in outputs) == len(answer(asked.text))
    thinker.release("r0")
    assert not thinker.slots


def test_a_talker_speaks_the_text_received_so_far_and_then_waits_for_more() -> None:
    talker = Talker(ToneCosts(), lambda _seconds: None, after_thinker=True)
    text = "Eight ch" + "aracters"
    points = [np.array([ord(letter) for letter in part], np.uint32) for part in (text[:8], text[8:])]
    frames = []

    def step(values: object, *, complete: bool) -> bool:
        row = StageInput(request(), values, upstream_complete=complete)  # type: ignore[arg-type]
        (output,) = talker.run([row])
        frames.append(host_array(output.values))
        assert not output.words
        return output.starved or output.finished

    done = step(points[0], complete=False)
    while not done:
        done = step(None, complete=False)
    assert sum(map(len, frames)) == 6
    done = step(points[1], complete=True)
    while not done:
        done = step(None, complete=True)
    assert np.array_equal(np.concatenate(frames), codes(request(0, text)))
    talker.release("r0")
    assert not talker.slots
