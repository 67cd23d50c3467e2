"""Ablation: every layer runs completely, and neither failures nor refusals count as speed."""

import asyncio
import re
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

from bench import ablation, results
from bench.ablation_driver import LayerRun, drive
from bench.ablation_figures import (
    METRICS,
    Findings,
    continuity_table,
    headline,
    ratios_table,
    result_of,
    times_table,
    value_of,
)
from bench.ablation_layers import LAYERS, Layer, ModelCache, Prompt, Qwen3TTS, Tone, prompts
from bench.results import Result
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


# -- Layers ------------------------------------------------------------------------------------------------------------


def test_each_layer_includes_the_previous_one() -> None:
    for before, layer in pairwise(LAYERS):
        assert before.batched <= layer.batched
        assert before.graphs <= layer.graphs
        assert before.streamed <= layer.streamed
        assert not (before.code2wav == "stateful" and layer.code2wav == "windowed")
        assert replace(before, name="", description="") != replace(layer, name="", description="")
    assert [layer.max_wait_s is None for layer in LAYERS] == [True] * (len(LAYERS) - 1) + [False]


def test_prompts_vary_in_length_and_are_reproducible() -> None:
    chosen = prompts(20, 6, 14)
    assert chosen == prompts(20, 6, 14)
    assert {len(prompt.text.split()) for prompt in chosen} == set(range(6, 15))
    assert len({prompt.seed for prompt in chosen}) == 20


def test_a_model_is_loaded_once_for_all_layers_with_the_same_options() -> None:
    built: list[tuple[int, dict[str, object]]] = []

    def build(slots: int, **options: object) -> Model:
        built.append((slots, options))
        return tone.build()

    cache = ModelCache(build, slots=8)
    models = [cache(layer, {"code2wav": layer.code2wav}) for layer in LAYERS]
    assert built == [(1, {"code2wav": "windowed"}), (8, {"code2wav": "windowed"}), (8, {"code2wav": "stateful"})]
    assert [model.specs[0].slots for model in models] == [1] + [8] * (len(LAYERS) - 1)


def test_graphs_are_not_applicable_on_a_cpu_or_to_tone(tmp_path: Path) -> None:
    for subject in (Tone(4, "free"), Qwen3TTS(tmp_path, 4, "cpu", 1, {})):
        skipped = [layer.name for layer in LAYERS if subject.why_not_applicable(layer) is not None]
        assert skipped == ["+ graphs"]


def test_graphs_are_requested_from_their_layer_on_and_only_on_a_gpu(tmp_path: Path) -> None:
    for device, expected in (("cpu", [False] * 3), ("cuda", [False, False, True, True])):
        built: list[bool] = []

        def build(*, graphs: bool, built: list[bool] = built, **_options: object) -> Model:
            built.append(graphs)
            return tone.build()

        subject = Qwen3TTS(tmp_path, 4, device, 1, {}, build)
        assert (subject.why_not_applicable(BY_NAME["+ graphs"]) is None) is (device == "cuda")
        for layer in LAYERS:
            subject.model(layer)
        assert built == expected, device


def test_graphs_are_not_applicable_to_a_model_without_the_option(tmp_path: Path) -> None:
    def build(**_options: object) -> Model:
        return tone.build()

    why = Qwen3TTS(tmp_path, 4, "cuda", 1, {}, build).why_not_applicable(BY_NAME["+ graphs"])
    assert why is not None
    assert "no option `graphs`" in why


# -- Driving -----------------------------------------------------------------------------------------------------------


class ObservedStage:
    """A stage that records its inputs, ends one text too early, and refuses another text once."""

    def __init__(self, stage: Stage, broken: str | None = None, refused: str | None = None) -> None:
        self.rows: list[int] = []
        self.chunks: list[Chunk] = []
        self._stage = stage
        self._broken = broken
        self._refused = refused

    def run(self, batch: Sequence[StageInput]) -> Sequence[StageOutput]:
        self.rows.append(len(batch))
        self.chunks += [row.chunk for row in batch if row.chunk is not None]
        return [self._changed(row, output) for row, output in zip(batch, self._stage.run(batch), strict=True)]

    def release(self, request_id: str) -> None:
        self._stage.release(request_id)

    def _changed(self, row: StageInput, output: StageOutput) -> StageOutput:
        if row.request.text == self._refused:
            self._refused = None
            return replace(output, error=Overloaded("full", retry_after_s=RETRY_AFTER_S))
        return replace(output, finished=True) if row.request.text == self._broken else output


def observed(
    layer: Layer, *, broken: str | None = None, refused: str | None = None
) -> tuple[Model, ObservedStage, ObservedStage]:
    """The model, its Talker and its Code2Wav."""
    model = Tone(4, "free").model(layer)
    talker, code2wav = ObservedStage(model.stage("talker"), broken, refused), ObservedStage(model.stage("code2wav"))
    return replace(model, stages={"talker": (talker,), "code2wav": (code2wav,)}), talker, code2wav


async def driven(
    model: Model, layer: Layer, requested: Sequence[Prompt], *, users: int = 4, limit_s: float = 20.0
) -> LayerRun:
    run, _costs = await drive(
        model, layer, MonotonicClock(), requested, users=users, limit_s=limit_s, stop=asyncio.Event()
    )
    return run


async def test_every_layer_speaks_every_prompt_completely() -> None:
    for layer in LAYERS:
        requested = prompts(8, 6, 14)
        model, talker, code2wav = observed(layer)
        run = await driven(model, layer, requested)
        spoken = [outcome for outcome in run.outcomes if outcome.status is Status.OK]
        durations_s = sorted(prompt.frames * 0.08 for prompt in requested)
        assert sorted(outcome.audio_s for outcome in spoken) == pytest.approx(durations_s), layer.name
        assert (max(talker.rows) > 1) is layer.batched
        if layer.streamed:
            assert max(outcome.packets for outcome in spoken) > 1
        else:
            assert all(chunk.final and chunk.start == 0 for chunk in code2wav.chunks)
            assert {outcome.packets for outcome in spoken} == {1}
            assert {outcome.continuity_ok for outcome in spoken} == {None}


async def test_chunks_have_the_published_sizes() -> None:
    for name, first in (("+ streaming", 25), ("+ first chunk", 4), ("+ stateful", 4)):
        model, _talker, code2wav = observed(BY_NAME[name])
        await driven(model, BY_NAME[name], prompts(3, 12, 14), users=1)
        initial = {chunk.frames for chunk in code2wav.chunks if chunk.start == 0}
        later = {chunk.frames for chunk in code2wav.chunks if chunk.start and not chunk.final}
        assert (initial, later) == ({first}, {25}), name


async def test_truncated_speech_is_a_failure() -> None:
    requested = prompts(3, 6, 8)
    model, *_stages = observed(STREAMING, broken=requested[1].text)
    run = await driven(model, STREAMING, requested)
    assert {outcome.text: outcome.status for outcome in run.outcomes} == {
        prompt.text: Status.FAILED if prompt is requested[1] else Status.OK for prompt in requested
    }


async def test_a_refused_prompt_is_requested_again_and_its_waits_add_up() -> None:
    requested = prompts(2, 6, 7)
    model, *_stages = observed(DEADLINE, refused=requested[0].text)
    run = await driven(model, DEADLINE, requested)
    assert sorted((outcome.text, outcome.status) for outcome in run.outcomes) == sorted(
        [(requested[0].text, Status.REFUSED), *((prompt.text, Status.OK) for prompt in requested)]
    )
    assert run.waits_s[0] >= RETRY_AFTER_S


async def test_a_run_that_takes_too_long_is_stopped() -> None:
    slow = tone.build(costs=tone.ToneCosts(a0_s=0.05))
    run = await driven(slow, STREAMING, prompts(2, 6, 6), users=1, limit_s=0.2)
    assert [outcome.status for outcome in run.outcomes] == [Status.UNFINISHED]
    assert len(run.waits_s) == 1
    assert run.prompts == 2


# -- Figures -----------------------------------------------------------------------------------------------------------


def spoken(*packets: tuple[float, float], ended_s: float, status: Status = Status.OK) -> Outcome:
    timeline = [Packet(*packet) for packet in packets]
    return judge(intended_s=0.0, ended_s=ended_s, status=status, timeline=timeline, ttfa_s=timeline[0].at_s)


def ended(status: Status, ended_s: float) -> Outcome:
    return judge(intended_s=0.0, ended_s=ended_s, status=status)


def run_of(*outcomes: Outcome, waits_s: tuple[float, ...] = ()) -> LayerRun:
    return LayerRun(outcomes, waits_s, prompts=len(outcomes), duration_s=4.0)


GOOD = spoken((1.0, 2.0), (2.0, 2.0), ended_s=2.0)
GAP = spoken((1.0, 0.5), (2.0, 3.5), ended_s=2.0)


def test_fast_failures_and_refusals_do_not_count_as_speed() -> None:
    broken = spoken((0.001, 0.1), ended_s=0.002, status=Status.FAILED)
    interrupted = [ended(Status.UNFINISHED, 3.0), ended(Status.UNFINISHED, 0.001)]  # the short wait does not count
    alone, mixed = (
        run_of(GOOD),
        run_of(GOOD, broken, ended(Status.REFUSED, 0.001), ended(Status.FAILED, 0.001), *interrupted),
    )
    for name, seconds in (("E2E p50", 2.0), ("TTFP p50", 1.0), ("TTFA p50", 1.0)):
        assert value_of(METRIC[name], alone) == 1000 * seconds
        assert value_of(METRIC[name], mixed) == 1000 * (seconds + 3.0) / 2
    for name in ("RTF", "audio-s/s"):
        assert value_of(METRIC[name], mixed) == value_of(METRIC[name], alone)
    nothing = run_of(ended(Status.REFUSED, 0.001), ended(Status.FAILED, 0.001))
    assert [value_of(metric, nothing) for metric in METRICS] == [None] * len(METRICS)


def test_a_failed_stream_has_a_verdict_and_a_refused_or_single_packet_has_none() -> None:
    findings = Findings({})
    single = spoken((1.0, 2.0), ended_s=1.0)
    findings.add(STREAMING, 4, 0, run_of(GOOD, GAP, single, ended(Status.FAILED, 1.0), ended(Status.REFUSED, 0.0)))
    (row,) = continuity_table(findings).rows
    values = dict(zip(continuity_table(findings).columns, row, strict=True))
    assert values["ok"] == "1 of 3"
    assert (values["refused"], values["failed"], values["unfinished"]) == ("1", "1", "0")
    assert values["prompts completed"] == "3 of 5"
    assert values["underrun p99, ms"] != "-"


def test_ratios_are_medians_over_rounds() -> None:
    findings = Findings({"+ graphs": "no reason"})
    for number, slowness in enumerate((1.0, 10.0, 2.0)):  # of the machine, in each round
        findings.add(BATCHING, 1, number, run_of(spoken((slowness, 1.0), ended_s=slowness)))
        findings.add(STREAMING, 1, number, run_of(spoken((slowness / 4, 1.0), ended_s=slowness / 4)))
        findings.add(BASELINE, 1, number, run_of(spoken((2 * slowness, 1.0), ended_s=2 * slowness)))
    findings.add(BASELINE, 1, 3, run_of(spoken((100.0, 1.0), ended_s=100.0)))  # of a round without the others
    values = {
        row[0]: dict(zip(ratios_table(findings).columns, row, strict=True)) for row in ratios_table(findings).rows
    }
    assert values["+ batching"]["TTFP p50 / baseline"] == 0.5
    assert values["+ streaming"]["TTFP p50 / previous"] == 0.25  # graphs are not applicable
    assert values["+ streaming"]["TTFP p50 / baseline"] == 0.125
    (first, *_rest) = [row for row in times_table(findings).rows if row[0] == "+ batching"]
    assert "2000 (1000 to 10000)" in first


def test_a_layer_that_is_not_applicable_has_a_row_without_figures() -> None:
    findings = Findings({"+ graphs": "no such thing"})
    for layer in findings.layers:
        findings.add(layer, 1, 0, run_of(GOOD))
    for table in (times_table(findings), continuity_table(findings)):
        (row,) = [row for row in table.rows if row[0] == "+ graphs"]
        assert row[2] == "not applicable"
        assert not any(row[3:])
    assert "+ graphs" not in {row[0] for row in ratios_table(findings).rows}
    assert any("no such thing" in note for note in result_of(findings, {}).notes)


def test_the_headline_has_speed_and_continuity() -> None:
    findings = Findings({})
    for layer in LAYERS:
        findings.add(layer, 4, 0, run_of(GOOD) if layer is DEADLINE else run_of(GAP))
    assert headline(findings).endswith("Streams in time: + stateful 0 of 1, + deadline 1 of 1.")


def test_an_empty_ablation_has_no_figures() -> None:
    assert headline(Findings({})) == "No complete measurement."
    assert result_of(Findings({}), {}).tables[0].rows == ()


# -- Command line ------------------------------------------------------------------------------------------------------


def test_a_smoke_run_measures_and_reports_every_layer(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file, html = tmp_path / "ablation.json", tmp_path / "ablation.html"
    assert ablation.main(["--smoke", "--json", str(file), "--report", str(html)]) == 0
    out, progress = capsys.readouterr()
    (result,) = results.loads(file.read_bytes())
    assert isinstance(result, Result)
    names = {layer.name for layer in LAYERS} - {"+ graphs"}
    assert {row[:2] for row in result.tables[-1].rows} == {(name, users) for name in names for users in (1, 2)}
    assert all(line.points for plot in result.plots for line in plot.lines)
    assert "+ graphs" in out
    assert "not applicable" in out
    assert len(re.findall(r"round 1 of 1", progress)) == 2 * len(names)
    assert html.read_text("utf-8").count("<svg") == 4
    assert "first chunk</text>" in html.read_text("utf-8")


def test_no_layer_starts_after_the_time_limit(capsys: pytest.CaptureFixture[str]) -> None:
    assert ablation.main(["--smoke", "--max-total-s", "1e-6"]) == 1
    out, progress = capsys.readouterr()
    assert "No complete measurement." in out
    assert "ended early" in progress


def test_the_order_of_the_layers_alternates() -> None:
    plan = ablation.AblationPlan((1, 4), rounds=2, prompts_per_user=1, words=(6, 14), max_total_s=1, max_run_s=1)
    order = [(number, users, layer.name) for number, users, layer in plan.measurements([BASELINE, BATCHING])]
    assert order[:2] == [(0, 1, "baseline"), (0, 1, "+ batching")]
    assert order[4:6] == [(1, 1, "+ batching"), (1, 1, "baseline")]
    assert len(set(order)) == 8


def test_qwen3_tts_with_random_weights_ends_at_its_length_limit(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    from bench.qwen3_tts_weights import SIZES, write_model

    torch.set_num_threads(1)
    write_model(tmp_path / "model", replace(SIZES["tiny"], predictor_hidden=32))  # narrower, as in the 1.7B
    subject = Qwen3TTS(tmp_path / "model", 2, "cpu", 1, {})
    requested = [Prompt("hello the", 1), Prompt("hello the world", 2)]
    for layer in (BATCHING, DEADLINE):
        run = asyncio.run(driven(subject.model(layer), layer, requested, users=1, limit_s=120.0))
        assert [outcome.status for outcome in run.outcomes] == [Status.OK, Status.OK]
        assert [outcome.audio_s for outcome in run.outcomes] == pytest.approx(
            [prompt.frames * 0.08 for prompt in requested]
        )


def test_every_published_size_has_the_published_shapes(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    from bench.qwen3_tts_weights import SIZES

    assert set(ablation.SIZES) == set(SIZES)
    assert (SIZES["1.7B"].hidden, SIZES["1.7B"].predictor_hidden) == (2048, 1024)
