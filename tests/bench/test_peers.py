"""Comparison with other servers: text input, clients, figures, pairing, and a complete run."""

import asyncio
import io
import json
import sys
import wave
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from aiohttp import web

from bench.listeners import Stopwatch
from bench.peers import __main__ as peers_main
from bench.peers import whole_sentence
from bench.peers.catalogue import DEFAULT, OURS, PEERS, Peer, Site
from bench.peers.clients import Client, HttpClient, WebSocketClient, WyomingClient
from bench.peers.comparison import Comparison, ComparisonPlan, Measurement, Scenario, schedule, texts_of
from bench.peers.figures import figures, paired_ratio, ratios, ttfp_s
from bench.peers.result import all_ratios, result_of
from bench.peers.saved_rounds import SavedRounds, continued, dumps, load
from bench.peers.text_source import TextSource, tokens
from bench.request_record import RequestRecord
from bench.server_process import Command, free_port
from bench.summary import Outcome, Packet, Status, judge
from realtime_tts.clock import MonotonicClock

ALONE = Scenario(1, None)
WRITTEN = Scenario(1, 20.0)
TEXT = "The kettle is on. Would you like some tea?"
LOUD = b"\x00\x20" * 2400  # 0.1 s at 24 kHz


# -- Text --------------------------------------------------------------------------------------------------------------


def test_tokens_concatenate_to_the_text_and_long_words_are_several() -> None:
    for text in (TEXT, "", "  two  spaces ", "antidisestablishmentarianism", "a\nb"):
        assert "".join(tokens(text)) == text
    assert tokens("Hello everybody") == ["Hello", " every", "body"]


async def test_written_and_whole_texts_have_the_same_sentences() -> None:
    watch = Stopwatch(MonotonicClock())
    whole = [sentence async for sentence in TextSource(TEXT, 0.0).sentences(watch)]
    written = [sentence async for sentence in TextSource(TEXT, 0.0, 10_000.0).sentences(watch)]
    assert whole == written == ["The kettle is on.", "Would you like some tea?"]


async def test_no_token_is_sent_before_its_time() -> None:
    watch = Stopwatch(MonotonicClock())
    source = TextSource("one two three", start_s=0.02, tokens_per_s=100.0)
    early = [watch.now_s() < 0.02 + number / 100 async for number, _ in _numbered(source.pieces(watch))]
    assert early == [False, False, False]


async def _numbered(pieces: AsyncIterator[str]) -> AsyncIterator[tuple[int, str]]:
    number = 0
    async for piece in pieces:
        yield number, piece
        number += 1


# -- Clients -----------------------------------------------------------------------------------------------------------

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@asynccontextmanager
async def http_server(handler: Handler) -> AsyncIterator[int]:
    application = web.Application()
    application.router.add_post("/speak", handler)
    async with served(application) as port:
        yield port


@asynccontextmanager
async def served(application: web.Application) -> AsyncIterator[int]:
    runner = web.AppRunner(application)
    await runner.setup()
    port = free_port()
    await web.TCPSite(runner, "127.0.0.1", port).start()
    try:
        yield port
    finally:
        await runner.cleanup()


async def requested(client: Client, port: int, tokens_per_s: float | None = None) -> Outcome:
    watch = Stopwatch(MonotonicClock())
    record = RequestRecord(TEXT, 0.0)
    async with asyncio.timeout(20):
        await client.request(port, TextSource(TEXT, 0.0, tokens_per_s), record, watch)
    record.interrupt(watch.now_s())
    return record.outcome()


async def test_raw_audio_is_complete_however_it_is_split() -> None:
    bodies = []

    async def speak(request: web.Request) -> web.StreamResponse:
        bodies.append(await request.json())
        response = web.StreamResponse()
        await response.prepare(request)
        for part in (LOUD[:999], LOUD[999:]):  # in the middle of a sample
            await response.write(part)
            await asyncio.sleep(0.01)
        return response

    async with http_server(speak) as port:
        outcome = await requested(HttpClient("/speak", "input", {"voice": "v"}, 24_000), port)
    assert outcome.status is Status.OK
    assert outcome.audio_s == pytest.approx(0.1)
    assert bodies == [{"voice": "v", "input": TEXT}]


async def test_a_written_text_is_sent_by_sentences() -> None:
    bodies = []

    async def speak(request: web.Request) -> web.Response:
        bodies.append((await request.json())["text"])
        return web.Response(body=_wav(LOUD, 22_050))

    async with http_server(speak) as port:
        outcome = await requested(HttpClient("/speak", "text"), port, tokens_per_s=2000.0)
        sentences = await requested(HttpClient("/speak", "text", whole_text=False), port)
    assert bodies == ["The kettle is on.", "Would you like some tea?"] * 2
    assert outcome.packets == sentences.packets == 2
    assert outcome.audio_s == pytest.approx(2 * 2400 / 22_050)


def _wav(pcm: bytes, rate_hz: int) -> bytes:
    data = io.BytesIO()
    with wave.open(data, "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(rate_hz)
        file.writeframes(pcm)
    return data.getvalue()


async def test_refusals_and_errors_are_distinguished() -> None:
    for status, expected, retry_after_s in (
        *((503, Status.REFUSED, 3.0), (429, Status.REFUSED, 3.0), (500, Status.FAILED, None)),
    ):

        async def speak(_request: web.Request, status: int = status) -> web.Response:
            return web.Response(status=status, text="not now", headers={"Retry-After": "3"})

        async with http_server(speak) as port:
            outcome = await requested(HttpClient("/speak", "input", sample_rate_hz=24_000), port)
        assert outcome.status is expected, status
        assert outcome.retry_after_s == retry_after_s
        assert "not now" in outcome.reason


async def test_an_incomplete_response_is_a_failure() -> None:
    async def speak(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(LOUD)
        assert request.transport is not None
        request.transport.close()
        return response

    async with http_server(speak) as port:
        outcome = await requested(HttpClient("/speak", "input", sample_rate_hz=24_000), port)
    assert outcome.status is Status.FAILED


async def test_a_missing_server_is_a_failure_without_times() -> None:
    clients: tuple[Client, ...] = (WebSocketClient("v"), HttpClient("/", "input"), WyomingClient())
    for client in clients:
        outcome = await requested(client, free_port())
        assert outcome.status is Status.FAILED
        assert ttfp_s(outcome) is None


@asynccontextmanager
async def wyoming_server(answer: bytes, events: list[dict[str, object]]) -> AsyncIterator[int]:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while line := await reader.readline():
            events.append(json.loads(line))
            if events[-1]["type"] == "synthesize-stop":
                writer.write(answer)
                await writer.drain()
                break
        writer.close()

    server = await asyncio.start_server(talk, "127.0.0.1", 0)
    async with server:
        yield server.sockets[0].getsockname()[1]


def wyoming_chunk() -> bytes:
    data = b'{"rate": 24000, "width": 2, "channels": 1}'
    head = {"type": "audio-chunk", "data_length": len(data), "payload_length": len(LOUD)}
    return json.dumps(head).encode() + b"\n" + data + LOUD


async def test_wyoming_sends_text_in_pieces() -> None:
    events: list[dict[str, object]] = []
    async with wyoming_server(wyoming_chunk() * 2 + b'{"type": "synthesize-stopped"}\n', events) as port:
        outcome = await requested(WyomingClient(), port, tokens_per_s=2000.0)
    assert outcome.status is Status.OK
    assert outcome.audio_s == pytest.approx(0.2)
    pieces = [event["data"] for event in events if event["type"] == "synthesize-chunk"]
    assert pieces == [{"text": token} for token in tokens(TEXT)]


async def test_wyoming_without_an_end_is_a_failure() -> None:
    for answer in (b"", b'{"type": "error", "data": {"text": "no voice"}}\n', b"nonsense\n"):
        async with wyoming_server(wyoming_chunk() + answer, []) as port:
            outcome = await requested(WyomingClient(), port)
        assert outcome.status is Status.FAILED, answer


async def test_the_whole_sentence_server_sends_every_sample_of_every_sentence() -> None:
    client = HttpClient("/v1/audio/speech", "input", sample_rate_hz=24_000)
    async with served(whole_sentence.app(whole_sentence.tone_voice)) as port:
        outcome = await requested(client, port)
    sentences = ("The kettle is on.", "Would you like some tea?")
    expected = sum(len(whole_sentence.tone_voice(sentence)) for sentence in sentences)
    assert outcome.audio_s == pytest.approx(expected / 24_000)


# -- Figures -----------------------------------------------------------------------------------------------------------


def outcome(first_s: float, *, last_s: float = 4.0, audio_s: float = 2.0, status: Status = Status.OK) -> Outcome:
    half = audio_s / 2
    timeline = [Packet(first_s, half), Packet(last_s, half)] if status is not Status.REFUSED else []
    return judge(intended_s=0.0, ended_s=last_s, status=status, timeline=timeline, ttfa_s=first_s + 0.1)


def measurement(
    peer: str, *outcomes: Outcome, number: int = 0, scenario: Scenario = ALONE, cpu: float | None = 1.0
) -> Measurement:
    return Measurement(number, peer, scenario, outcomes, cpu, 0.0)


def test_a_failure_is_neither_fast_nor_continuous() -> None:
    found = figures([measurement("a", outcome(0.1, status=Status.FAILED), outcome(2.0))])
    assert found.ttfp_s.p50 == 2.0
    assert found.ttfa_s.p50 == 2.1
    assert found.failed == 1
    assert found.ok_share is not None
    assert found.ok_share < 1


def test_a_single_packet_has_no_continuity() -> None:
    single = judge(intended_s=0.0, ended_s=1.0, status=Status.OK, timeline=[Packet(1.0, 2.0)])
    found = figures([measurement("a", single)])
    assert found.ok_share is None
    assert found.underrun_s.p50 is None


def test_figures_of_one_server() -> None:
    found = figures([measurement("a", outcome(1.0, last_s=4.0, audio_s=2.0), cpu=3.0)])
    assert found.e2e_s.p50 == pytest.approx(4.0)
    assert found.rtf == pytest.approx(2.0)
    assert found.cpu_per_audio_s == pytest.approx(1.5)
    assert found.first_work_s == pytest.approx(0.5)  # at 2 s of wall for each second, 1 s makes half a second


def test_the_work_before_first_audio_needs_a_whole_text() -> None:
    assert figures([measurement("a", outcome(1.0), scenario=WRITTEN)]).first_work_s is None


def test_unknown_cpu_time_stays_unknown() -> None:
    assert figures([measurement("a", outcome(1.0), cpu=None)]).cpu_per_audio_s is None


def test_only_requests_that_both_served_are_paired() -> None:
    ours = [outcome(0.1, status=Status.REFUSED), outcome(1.0), outcome(0.1)]
    theirs = [outcome(1.0), outcome(2.0), outcome(0.1, status=Status.FAILED)]
    assert paired_ratio(ours, theirs, lambda one: one.ttfp_s) == pytest.approx(0.5)
    assert paired_ratio(ours[:1], theirs[:1], lambda one: one.ttfp_s) is None


def test_ratios_are_taken_by_round() -> None:
    times = [(1.0, 2.0), (1.0, 4.0), (3.0, 3.0)]
    ours = [measurement("ours", outcome(mine), number=number) for number, (mine, _) in enumerate(times)]
    theirs = [measurement("b", outcome(other), number=number, cpu=2.0) for number, (_, other) in enumerate(times)]
    single = measurement("ours", outcome(3.5), number=3)  # a round without the other server
    found = ratios([*ours, *theirs, single], "ours", "b", ALONE, same_model=True)
    assert found.rounds == 3
    assert found.by_figure["TTFP"] == [0.5, 0.25, 1.0]
    assert found.by_figure["CPU"] == pytest.approx([0.5] * 3)


def test_another_model_is_never_compared_in_seconds() -> None:
    measurements = [measurement("ours", outcome(1.0)), measurement("b", outcome(2.0))]
    found = ratios(measurements, "ours", "b", ALONE, same_model=False)
    assert found.by_figure.keys() == {"work before first audio"}
    assert list(found.underrun_p95_s) == pytest.approx([2.0, 1.0])  # continuity is comparable
    written = [measurement(name, outcome(1.0), scenario=WRITTEN) for name in ("ours", "b")]
    assert ratios(written, "ours", "b", WRITTEN, same_model=False).by_figure == {}


# -- Comparison --------------------------------------------------------------------------------------------------------


def test_every_server_is_the_first_equally_often() -> None:
    peers = [PEERS[name] for name in DEFAULT]
    plan = ComparisonPlan(scenarios=(ALONE, WRITTEN), rounds=len(peers))
    order = list(schedule(plan, peers))
    assert len(order) == len(peers) * 2 * plan.rounds
    first = [peer.name for _number, scenario, peer in order[:: len(peers)] if scenario == ALONE]
    assert sorted(first) == sorted(DEFAULT)


def test_texts_are_the_same_for_all_and_new_in_each_round() -> None:
    plan, four = ComparisonPlan(scenarios=(ALONE,), rounds=2), Scenario(4, None)
    assert texts_of(plan, 0, four) == texts_of(plan, 0, four)
    assert texts_of(plan, 0, four) != texts_of(plan, 1, four)
    assert len(set(texts_of(plan, 0, four))) == 4


class HangingClient:
    """A client that never receives the end."""

    async def request(self, port: int, source: TextSource, record: RequestRecord, watch: Stopwatch) -> None:
        await asyncio.Event().wait()


def _accepting(site: Site) -> Command:
    return Command((sys.executable, "-m", "http.server", "--bind", "127.0.0.1", str(site.port)))


def _absent(_site: Site) -> Command:
    return Command((sys.executable, "-c", "raise SystemExit('not today')"))


async def test_failed_starts_are_reported_and_hanging_requests_interrupted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bench.peers.comparison.WARM_UP_LIMIT_S", 0.1)
    hanging = Peer("hanging", "", "", "", _accepting, HangingClient())
    absent = Peer("absent", "", "", "", _absent, HangingClient())
    plan = ComparisonPlan(scenarios=(ALONE,), rounds=1, limit_s=0.2)
    comparison = Comparison(plan, [hanging, absent], tmp_path, lambda _line: None)
    await comparison.run(tmp_path)
    assert [one.peer for one in comparison.measurements] == ["hanging"]
    assert [one.status for one in comparison.measurements[0].outcomes] == [Status.UNFINISHED]
    assert "not today" in comparison.failures["absent"]


def test_saved_rounds_are_kept_and_continued(tmp_path: Path) -> None:
    plan = ComparisonPlan(scenarios=(ALONE,), rounds=2)
    measurements = tuple(measurement("a", outcome(1.0), number=number) for number in range(2))
    saved = SavedRounds(plan, measurements, ("python",), {"b": "why"})
    path = tmp_path / "rounds.json"
    path.write_bytes(dumps(saved))
    assert load(path) == saved
    assert continued(plan, saved).first_round == 2
    assert continued(ComparisonPlan(scenarios=(WRITTEN,), rounds=2), saved).first_round == 0
    with pytest.raises(ValueError, match="5 sentences"):
        continued(ComparisonPlan(scenarios=(ALONE,), rounds=2, sentences=5), saved)


def test_the_result_names_measured_and_absent_servers() -> None:
    peers = [PEERS[OURS], PEERS["whole-sentence"], PEERS["wyoming-piper"]]
    measurements = tuple(measurement(peer.name, outcome(1.0 + number)) for number, peer in enumerate(peers))
    plan = ComparisonPlan(scenarios=(ALONE,), rounds=1)
    saved = SavedRounds(plan, measurements, (), {"fastkokoro": "not installed"})
    found = result_of(saved, peers, peers[0], {"cores": "2"})
    assert found.conditions["fastkokoro"] == "not measured: not installed"
    assert found.headline == "Time to first packet with one listener: 0.50 times whole-sentence"
    assert [one.peer for one in all_ratios(measurements, peers, peers[0])] == ["whole-sentence", "wyoming-piper"]


# -- Command line ------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_smoke_run_compares_two_live_servers(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rounds, html, figures_file = tmp_path / "rounds.json", tmp_path / "report.html", tmp_path / "result.json"
    assert peers_main.main(["--smoke", "--rounds-file", str(rounds)]) == 0
    outputs = ["--report", str(html), "--json", str(figures_file)]
    assert peers_main.main(["--smoke", "--rounds", "0", "--rounds-file", str(rounds), *outputs]) == 0
    out = capsys.readouterr().out
    assert "2 at once, 200 tokens/s: tone-whole-sentence" in out
    assert "Ours divided by theirs" in out
    saved = load(rounds)
    assert {one.status for measured in saved.measurements for one in measured.outcomes} == {Status.OK}
    assert {measured.scenario.listeners for measured in saved.measurements} == {1, 2}
    assert "<svg" in html.read_text("utf-8")
    assert json.loads(figures_file.read_bytes())[0]["bench"] == "bench.peers"


def test_a_server_that_is_not_installed_has_a_hint(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["--peers", "fastkokoro", "--cache", str(tmp_path), "--rounds", "1", "--listeners", "1"]
    assert peers_main.main(arguments) == 2
    assert "python -m bench.peers --setup fastkokoro" in capsys.readouterr().err


def test_an_invalid_rounds_file_is_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "rounds.json").write_text("{}")
    assert peers_main.main(["--rounds-file", str(tmp_path / "rounds.json"), "--rounds", "0"]) == 2
    assert "Error" in capsys.readouterr().err


def test_the_help_lists_all_servers(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        peers_main.main(["--help"])
    out = capsys.readouterr().out
    assert all(name in out for name in PEERS)
