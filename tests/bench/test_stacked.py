"""The stacked comparison: every layer runs and says what it is, and neither failure nor refusal passes for speed."""

import asyncio
import json
import re
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import msgspec
import pytest

from bench import stacked
from bench.results import Result
from bench.stacked_drive import Cell, drive
from bench.stacked_figures import METRICS, Found, continuity, headline, measured, ratios, result, times
from bench.stacked_layers import LAYERS, Layer, Loaded, Prompt, Qwen3TTS, Tone, prompts
from bench.summary import Outcome, Packet, Status, judge
from realtime_tts.clock import MonotonicClock
from realtime_tts.engine.models import tone
from realtime_tts.engine.scheduling.chunking import Chunk
from realtime_tts.engine.stage import Model, Stage, StageInput, StageOutput
from realtime_tts.errors import Overloaded

BY_NAME = {layer.name: layer for layer in LAYERS}
BASELINE, BATCHING, STREAMING, DEADLINE = (
    BY_NAME[name] for name in ("baseline", "+ batching", "+ streaming", "+ deadline")
)
RETRY_AFTER_S = 0.3
METRIC = {metric.name: metric for metric in METRICS}


# -- The layers --------------------------------------------------------------------------------------------------------


def test_each_layer_keeps_what_the_one_before_it_has() -> None:
    for before, layer in pairwise(LAYERS):
        assert before.batched <= layer.batched
        assert before.graphs <= layer.graphs
        assert before.streamed <= layer.streamed
        assert not (before.code2wav == "stateful" and layer.code2wav == "windowed")
        assert replace(before, name="", about="") != replace(layer, name="", about="")
    assert [layer.max_wait_s is None for layer in LAYERS] == [True] * (len(LAYERS) - 1) + [False]


def test_prompts_vary_in_length_and_are_the_same_again() -> None:
    some = prompts(20, 6, 14)
    assert some == prompts(20, 6, 14)
    assert {len(prompt.text.split()) for prompt in some} == set(range(6, 15))
    assert len({prompt.seed for prompt in some}) == 20


def test_a_model_is_loaded_once_for_all_layers_that_want_the_same() -> None:
    asked: list[tuple[int, dict[str, object]]] = []

    def build(slots: int, **options: object) -> Model:
        asked.append((slots, options))
        return tone.build()

    loaded = Loaded(build, slots=8)
    models = [loaded(layer, {"code2wav": layer.code2wav}) for layer in LAYERS]
    assert asked == [(1, {"code2wav": "windowed"}), (8, {"code2wav": "windowed"}), (8, {"code2wav": "stateful"})]
    assert [model.specs[0].slots for model in models] == [1] + [8] * (len(LAYERS) - 1)


def test_a_layer_that_is_not_there_is_told_and_not_measured(tmp_path: Path) -> None:
    for subject in (Tone(4, "free"), Qwen3TTS(tmp_path, 4, "cpu", 1, {})):
        lacking = [layer.name for layer in LAYERS if subject.lacks(layer) is not None]
        assert lacking == ["+ graphs"]


@pytest.mark.parametrize(("device", "expected"), [("cpu", [False] * 3), ("cuda", [False, False, True, True])])
def test_graphs_are_asked_for_from_their_layer_on_and_only_on_a_gpu(
    tmp_path: Path, device: str, expected: list[bool]
) -> None:
    asked: list[bool] = []

    def build(*, graphs: bool, **_options: object) -> Model:
        asked.append(graphs)
        return tone.build()

    subject = Qwen3TTS(tmp_path, 4, device, 1, {}, build)
    assert (subject.lacks(BY_NAME["+ graphs"]) is None) is (device == "cuda")
    for layer in LAYERS:
        subject.model(layer)
    assert asked == expected


def test_a_model_without_the_option_lacks_the_layer_also_on_a_gpu(tmp_path: Path) -> None:
    def build(**_options: object) -> Model:
        return tone.build()

    why = Qwen3TTS(tmp_path, 4, "cuda", 1, {}, build).lacks(BY_NAME["+ graphs"])
    assert why is not None
    assert "no option `graphs`" in why


# -- Driving -----------------------------------------------------------------------------------------------------------


class Watched:
    """A stage that notes what it is given, breaks off in one text, and once has no room for another."""

    def __init__(self, stage: Stage, broken: str | None = None, refused: str | None = None) -> None:
        self.rows: list[int] = []
        self.chunks: list[Chunk] = []
        self._stage = stage
        self._broken = broken
        self._refused = refused

    def run(self, batch: Sequence[StageInput]) -> Sequence[StageOutput]:
        self.rows.append(len(batch))
        self.chunks += [row.chunk for row in batch if row.chunk is not None]
        return [self._spoilt(row, output) for row, output in zip(batch, self._stage.run(batch), strict=True)]

    def release(self, request_id: str) -> None:
        self._stage.release(request_id)

    def _spoilt(self, row: StageInput, output: StageOutput) -> StageOutput:
        if row.request.text == self._refused:
            self._refused = None
            return replace(output, error=Overloaded("full", retry_after_s=RETRY_AFTER_S))
        return replace(output, finished=True) if row.request.text == self._broken else output


def watched(layer: Layer, *, broken: str | None = None, refused: str | None = None) -> tuple[Model, Watched, Watched]:
    """The model, its Talker and its Code2Wav."""
    model = Tone(4, "free").model(layer)
    talker, code2wav = Watched(model.stage("talker"), broken, refused), Watched(model.stage("code2wav"))
    return replace(model, stages={"talker": (talker,), "code2wav": (code2wav,)}), talker, code2wav


async def driven(model: Model, layer: Layer, asked: Sequence[Prompt], *, users: int = 4, limit_s: float = 20.0) -> Cell:
    cell, _costs = await drive(
        model, layer, MonotonicClock(), asked, users=users, limit_s=limit_s, stop=asyncio.Event()
    )
    return cell


@pytest.mark.parametrize("layer", LAYERS, ids=lambda layer: layer.name)
async def test_every_layer_speaks_every_prompt_whole(layer: Layer) -> None:
    asked = prompts(8, 6, 14)
    model, talker, code2wav = watched(layer)
    cell = await driven(model, layer, asked)
    heard = [outcome for outcome in cell.outcomes if outcome.status is Status.OK]
    assert sorted(outcome.audio_s for outcome in heard) == pytest.approx(sorted(one.frames * 0.08 for one in asked))
    assert (max(talker.rows) > 1) is layer.batched
    if layer.streamed:
        assert max(outcome.packets for outcome in heard) > 1
    else:
        assert all(chunk.final and chunk.start == 0 for chunk in code2wav.chunks)
        assert {outcome.packets for outcome in heard} == {1}
        assert {outcome.continuity_ok for outcome in heard} == {None}


@pytest.mark.parametrize(("name", "first"), [("+ streaming", 25), ("+ first chunk", 4), ("+ stateful", 4)])
async def test_chunks_are_those_that_the_field_publishes(name: str, first: int) -> None:
    model, _talker, code2wav = watched(BY_NAME[name])
    await driven(model, BY_NAME[name], prompts(3, 12, 14), users=1)
    begun = [chunk.frames for chunk in code2wav.chunks if chunk.start == 0]
    later = [chunk.frames for chunk in code2wav.chunks if chunk.start and not chunk.final]
    assert (set(begun), set(later)) == ({first}, {25})


async def test_speech_that_breaks_off_is_a_failure() -> None:
    asked = prompts(3, 6, 8)
    model, *_stages = watched(STREAMING, broken=asked[1].text)
    cell = await driven(model, STREAMING, asked)
    assert {outcome.text: outcome.status for outcome in cell.outcomes} == {
        prompt.text: Status.FAILED if prompt is asked[1] else Status.OK for prompt in asked
    }


async def test_who_is_refused_comes_again_with_the_same_prompt_and_waits_in_sum() -> None:
    asked = prompts(2, 6, 7)
    model, *_stages = watched(DEADLINE, refused=asked[0].text)
    cell = await driven(model, DEADLINE, asked)
    assert sorted((outcome.text, outcome.status) for outcome in cell.outcomes) == sorted(
        [(asked[0].text, Status.REFUSED), *((prompt.text, Status.OK) for prompt in asked)]
    )
    assert cell.waits_s[0] >= RETRY_AFTER_S


async def test_a_turn_that_takes_too_long_is_cut() -> None:
    slow = tone.build(costs=tone.ToneCosts(a0_s=0.05))
    cell = await driven(slow, STREAMING, prompts(2, 6, 6), users=1, limit_s=0.2)
    assert [outcome.status for outcome in cell.outcomes] == [Status.UNFINISHED]
    assert len(cell.waits_s) == 1
    assert cell.prompts == 2


# -- Figures -----------------------------------------------------------------------------------------------------------


def spoken(*packets: tuple[float, float], ended_s: float, status: Status = Status.OK) -> Outcome:
    timeline = [Packet(*packet) for packet in packets]
    return judge(intended_s=0.0, ended_s=ended_s, status=status, timeline=timeline, ttfa_s=timeline[0].at_s)


def ended(status: Status, ended_s: float) -> Outcome:
    return judge(intended_s=0.0, ended_s=ended_s, status=status)


def cell(*outcomes: Outcome, waits_s: tuple[float, ...] = ()) -> Cell:
    return Cell(outcomes, waits_s, prompts=len(outcomes), duration_s=4.0)


GOOD = spoken((1.0, 2.0), (2.0, 2.0), ended_s=2.0)
GAP = spoken((1.0, 0.5), (2.0, 3.5), ended_s=2.0)


def test_quick_failures_and_refusals_make_nothing_look_quick() -> None:
    broken = spoken((0.001, 0.1), ended_s=0.002, status=Status.FAILED)
    cut = [ended(Status.UNFINISHED, 3.0), ended(Status.UNFINISHED, 0.001)]  # the other tells nothing
    alone, mixed = cell(GOOD), cell(GOOD, broken, ended(Status.REFUSED, 0.001), ended(Status.FAILED, 0.001), *cut)
    for name, seconds in (("E2E p50", 2.0), ("TTFP p50", 1.0), ("TTFA p50", 1.0)):
        assert measured(METRIC[name], alone) == 1000 * seconds
        assert measured(METRIC[name], mixed) == 1000 * (seconds + 3.0) / 2
    for name in ("RTF", "audio-s/s"):
        assert measured(METRIC[name], mixed) == measured(METRIC[name], alone)
    nothing = cell(ended(Status.REFUSED, 0.001), ended(Status.FAILED, 0.001))
    assert [measured(metric, nothing) for metric in METRICS] == [None] * len(METRICS)


def test_a_failed_stream_is_judged_and_a_refused_or_single_packet_is_not() -> None:
    found = Found({})
    single = spoken((1.0, 2.0), ended_s=1.0)
    found.add(STREAMING, 4, 0, cell(GOOD, GAP, single, ended(Status.FAILED, 1.0), ended(Status.REFUSED, 0.0)))
    (row,) = continuity(found).rows
    told = dict(zip(continuity(found).columns, row, strict=True))
    assert told["ok"] == "1 of 3"
    assert (told["refused"], told["failed"], told["cut"]) == ("1", "1", "0")
    assert told["prompts heard"] == "3 of 5"
    assert told["underrun p99, ms"] != "-"


def test_ratios_are_taken_within_a_round_and_their_median_told() -> None:
    found = Found({"+ graphs": "no reason"})
    for number, slowness in enumerate((1.0, 10.0, 2.0)):  # the machine's, in each round
        found.add(BATCHING, 1, number, cell(spoken((slowness, 1.0), ended_s=slowness)))
        found.add(STREAMING, 1, number, cell(spoken((slowness / 4, 1.0), ended_s=slowness / 4)))
        found.add(BASELINE, 1, number, cell(spoken((2 * slowness, 1.0), ended_s=2 * slowness)))
    found.add(BASELINE, 1, 3, cell(spoken((100.0, 1.0), ended_s=100.0)))  # of a round without the others
    told = {row[0]: dict(zip(ratios(found).columns, row, strict=True)) for row in ratios(found).rows}
    assert told["+ batching"]["TTFP p50 / baseline"] == 0.5
    assert told["+ streaming"]["TTFP p50 / before"] == 0.25  # of what is there: graphs are not
    assert told["+ streaming"]["TTFP p50 / baseline"] == 0.125
    (first, *_rest) = [row for row in times(found).rows if row[0] == "+ batching"]
    assert "2000 (1000..10000)" in first


def test_what_is_not_applicable_has_a_row_that_says_so_and_no_figures() -> None:
    found = Found({"+ graphs": "no such thing"})
    for layer in found.layers:
        found.add(layer, 1, 0, cell(GOOD))
    for table in (times(found), continuity(found)):
        (row,) = [row for row in table.rows if row[0] == "+ graphs"]
        assert row[2] == "not applicable"
        assert not any(row[3:])
    assert "+ graphs" not in {row[0] for row in ratios(found).rows}
    assert any("no such thing" in note for note in result(found, {}).notes)


def test_the_headline_tells_whether_listeners_ran_dry_beside_how_fast_it_was() -> None:
    found = Found({})
    for layer in LAYERS:
        found.add(layer, 4, 0, cell(GOOD) if layer is DEADLINE else cell(GAP))
    assert headline(found).endswith("Streams in time: + stateful 0 of 1, + deadline 1 of 1.")


def test_nothing_measured_is_told_as_that() -> None:
    assert headline(Found({})) == "Not enough was measured."
    assert result(Found({}), {}).tables[0].rows == ()


# -- The command line --------------------------------------------------------------------------------------------------


def test_a_smoke_run_measures_every_layer_and_writes_what_it_shows(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file, page = tmp_path / "stacked.json", tmp_path / "stacked.html"
    assert stacked.main(["--smoke", "--json", str(file), "--report", str(page)]) == 0
    out, progress = capsys.readouterr()
    told = msgspec.json.decode(file.read_bytes(), type=Result)
    rounds = told.tables[-1]
    names = {layer.name for layer in LAYERS} - {"+ graphs"}
    assert {(row[0], row[1]) for row in rounds.rows} == {(name, users) for name in names for users in (1, 2)}
    assert "+ graphs" in out
    assert "not applicable" in out
    assert len(re.findall(r"round 1 of 1", progress)) == 2 * len(names)
    assert page.read_text("utf-8").count("<svg") == 4
    assert "first chunk</text>" in page.read_text("utf-8")
    assert all(line["points"] for plot in json.loads(file.read_bytes())["plots"] for line in plot["lines"])


def test_a_budget_that_is_spent_begins_nothing_more(capsys: pytest.CaptureFixture[str]) -> None:
    assert stacked.main(["--smoke", "--budget-s", "1e-6"]) == 1
    out, progress = capsys.readouterr()
    assert "Not enough was measured." in out
    assert "ended early" in progress


def test_rounds_go_forwards_and_backwards() -> None:
    plan = stacked.Plan((1, 4), rounds=2, prompts_each=1, words=(6, 14), budget_s=1, cell_s=1)
    order = [(number, users, layer.name) for number, users, layer in plan.cells([BASELINE, BATCHING])]
    assert order[:2] == [(0, 1, "baseline"), (0, 1, "+ batching")]
    assert order[4:6] == [(1, 1, "+ batching"), (1, 1, "baseline")]
    assert len(set(order)) == 8


def test_qwen3_tts_of_random_weights_ends_where_it_is_bound_to(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    from bench.qwen3_tts_weights import SIZES, write_model

    torch.set_num_threads(1)
    write_model(tmp_path / "model", replace(SIZES["tiny"], predictor_hidden=32))  # narrower, as in the 1.7B
    subject = Qwen3TTS(tmp_path / "model", 2, "cpu", 1, {})
    asked = [Prompt("hello the", 1), Prompt("hello the world", 2)]
    for layer in (BATCHING, DEADLINE):
        cell = asyncio.run(driven(subject.model(layer), layer, asked, users=1, limit_s=120.0))
        assert [outcome.status for outcome in cell.outcomes] == [Status.OK, Status.OK]
        assert [outcome.audio_s for outcome in cell.outcomes] == pytest.approx(
            [prompt.frames * 0.08 for prompt in asked]
        )


def test_every_published_size_has_the_published_shapes(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    from bench.qwen3_tts_weights import SIZES

    assert set(stacked.SIZES) == set(SIZES)
    assert (SIZES["1.7B"].hidden, SIZES["1.7B"].predictor_hidden) == (2048, 1024)
