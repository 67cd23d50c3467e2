"""The comparison with others: what is measured, what is paired with what, and that it runs end to end."""

import asyncio
import io
import json
import subprocess
import sys
import wave
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from aiohttp import web

from bench import results
from bench.listeners import Stopwatch
from bench.peers import __main__ as peers_main
from bench.peers import qwen3_tts, whole_sentence
from bench.peers.catalogue import DEFAULT, OURS, PEERS, Peer, Site
from bench.peers.cells import Kept, after, dumps, load
from bench.peers.clients import Client, HttpClient, WebSocketClient, WyomingClient
from bench.peers.contest import Cell, Contest, Plan, Scenario, texts_of, turns
from bench.peers.feed import Feed, tokens
from bench.peers.figures import figures, paired_ratio, ttfp_s, versus
from bench.peers.process import Command, NotStarted, cpu_s, free_port, running
from bench.peers.result import against, result
from bench.results import Result, Table
from bench.summary import Outcome, Packet, Status, judge
from bench.take import Take
from realtime_tts.clock import MonotonicClock

ALONE = Scenario(1, None)
WRITTEN = Scenario(1, 20.0)
TEXT = "The kettle is on. Would you like some tea?"
LOUD = b"\x00\x20" * 2400  # 0.1 s at 24 kHz


# -- Text --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", [TEXT, "", "  two  spaces ", "antidisestablishmentarianism", "a\nb"])
def test_tokens_joined_are_the_text(text: str) -> None:
    assert "".join(tokens(text)) == text


def test_long_words_are_several_tokens() -> None:
    assert tokens("Hello everybody") == ["Hello", " every", "body"]


async def test_a_written_text_gives_the_same_sentences_as_a_whole_one() -> None:
    watch = Stopwatch(MonotonicClock())
    whole = [sentence async for sentence in Feed(TEXT, 0.0).sentences(watch)]
    written = [sentence async for sentence in Feed(TEXT, 0.0, 10_000.0).sentences(watch)]
    assert whole == written == ["The kettle is on.", "Would you like some tea?"]


async def test_no_token_comes_before_its_time() -> None:
    watch = Stopwatch(MonotonicClock())
    feed = Feed("one two three", began_s=0.02, tokens_per_s=100.0)
    early = [watch.now_s() < 0.02 + number / 100 async for number, _ in _numbered(feed.pieces(watch))]
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


async def heard(client: Client, port: int, tokens_per_s: float | None = None) -> Outcome:
    watch = Stopwatch(MonotonicClock())
    take = Take(TEXT, 0.0)
    async with asyncio.timeout(20):
        await client.hear(port, Feed(TEXT, 0.0, tokens_per_s), take, watch)
    take.cut(watch.now_s())
    return take.outcome()


async def test_raw_sound_counts_to_the_sample_however_it_is_cut() -> None:
    asked = []

    async def speak(request: web.Request) -> web.StreamResponse:
        asked.append(await request.json())
        response = web.StreamResponse()
        await response.prepare(request)
        for cut in (LOUD[:999], LOUD[999:]):  # in the middle of a sample
            await response.write(cut)
            await asyncio.sleep(0.01)
        return response

    async with http_server(speak) as port:
        outcome = await heard(HttpClient("/speak", "input", {"voice": "v"}, 24_000), port)
    assert outcome.status is Status.OK
    assert outcome.audio_s == pytest.approx(0.1)
    assert asked == [{"voice": "v", "input": TEXT}]


async def test_a_text_that_is_written_goes_sentence_by_sentence() -> None:
    asked = []

    async def speak(request: web.Request) -> web.Response:
        asked.append((await request.json())["text"])
        return web.Response(body=_wav(LOUD, 22_050))

    async with http_server(speak) as port:
        outcome = await heard(HttpClient("/speak", "text"), port, tokens_per_s=2000.0)
        sentences = await heard(HttpClient("/speak", "text", whole_text=False), port)
    assert asked == ["The kettle is on.", "Would you like some tea?"] * 2
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


@pytest.mark.parametrize(
    ("status", "became", "retry_after_s"),
    [(503, Status.REFUSED, 3.0), (429, Status.REFUSED, 3.0), (500, Status.FAILED, None)],
)
async def test_a_server_that_turns_a_listener_down(status: int, became: Status, retry_after_s: float | None) -> None:
    async def speak(_request: web.Request) -> web.Response:
        return web.Response(status=status, text="not now", headers={"Retry-After": "3"})

    async with http_server(speak) as port:
        outcome = await heard(HttpClient("/speak", "input", sample_rate_hz=24_000), port)
    assert outcome.status is became
    assert outcome.retry_after_s == retry_after_s
    assert "not now" in outcome.reason


async def test_an_answer_that_breaks_off_is_a_failure() -> None:
    async def speak(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(LOUD)
        assert request.transport is not None
        request.transport.close()
        return response

    async with http_server(speak) as port:
        outcome = await heard(HttpClient("/speak", "input", sample_rate_hz=24_000), port)
    assert outcome.status is Status.FAILED


@pytest.mark.parametrize("client", [WebSocketClient("v"), HttpClient("/", "input"), WyomingClient()])
async def test_no_server_is_a_failure_and_no_fast_answer(client: Client) -> None:
    outcome = await heard(client, free_port())
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


async def test_wyoming_speaks_text_in_pieces() -> None:
    events: list[dict[str, object]] = []
    async with wyoming_server(wyoming_chunk() * 2 + b'{"type": "synthesize-stopped"}\n', events) as port:
        outcome = await heard(WyomingClient(), port, tokens_per_s=2000.0)
    assert outcome.status is Status.OK
    assert outcome.audio_s == pytest.approx(0.2)
    pieces = [event["data"] for event in events if event["type"] == "synthesize-chunk"]
    assert pieces == [{"text": token} for token in tokens(TEXT)]


@pytest.mark.parametrize("answer", [b"", b'{"type": "error", "data": {"text": "no voice"}}\n', b"nonsense\n"])
async def test_wyoming_without_an_end_is_a_failure(answer: bytes) -> None:
    async with wyoming_server(wyoming_chunk() + answer, []) as port:
        outcome = await heard(WyomingClient(), port)
    assert outcome.status is Status.FAILED


async def test_the_whole_sentence_server_sends_every_sample_of_every_sentence() -> None:
    client = HttpClient("/v1/audio/speech", "input", sample_rate_hz=24_000)
    async with served(whole_sentence.app(whole_sentence.tone_voice)) as port:
        outcome = await heard(client, port)
    sentences = ("The kettle is on.", "Would you like some tea?")
    expected = sum(len(whole_sentence.tone_voice(sentence)) for sentence in sentences)
    assert outcome.audio_s == pytest.approx(expected / 24_000)


# -- Processes ---------------------------------------------------------------------------------------------------------


async def test_a_server_that_cannot_start_says_why(tmp_path: Path) -> None:
    command = Command((sys.executable, "-c", "raise SystemExit('no such model')"))
    with pytest.raises(NotStarted, match="no such model"):
        async with running(command, free_port(), [0], tmp_path / "log"):
            pass


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize("wait", ["", "; input()"], ids=["has ended", "still lives"])
def test_the_cpu_seconds_of_children_count(wait: str) -> None:
    child = f"import time\nwhile time.process_time() < 0.3: pass\nprint(flush=True){wait}"
    # Where the child still lives, the parent waits for it; else the second line says that it has been waited for.
    parent = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {child!r}]); print(flush=True); input()"
    with subprocess.Popen([sys.executable, "-c", parent], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        for _line in range(1 if wait else 2):
            process.stdout.readline()
        spent_s = cpu_s(process.pid)
        process.communicate(b"\n\n")
    assert spent_s is not None
    assert spent_s >= 0.3


# -- Figures -----------------------------------------------------------------------------------------------------------


def outcome(first_s: float, *, last_s: float = 4.0, audio_s: float = 2.0, status: Status = Status.OK) -> Outcome:
    half = audio_s / 2
    timeline = [Packet(first_s, half), Packet(last_s, half)] if status is not Status.REFUSED else []
    return judge(intended_s=0.0, ended_s=last_s, status=status, timeline=timeline, ttfa_s=first_s + 0.1)


def cell(peer: str, *outcomes: Outcome, number: int = 0, scenario: Scenario = ALONE, cpu: float | None = 1.0) -> Cell:
    return Cell(number, peer, scenario, outcomes, cpu, 0.0)


def test_a_failure_is_neither_fast_nor_continuous() -> None:
    found = figures([cell("a", outcome(0.1, status=Status.FAILED), outcome(2.0))])
    assert found.ttfp_s.p50 == 2.0
    assert found.ttfa_s.p50 == 2.1
    assert found.failed == 1
    assert found.ok_share is not None
    assert found.ok_share < 1


def test_a_single_packet_has_no_continuity() -> None:
    single = judge(intended_s=0.0, ended_s=1.0, status=Status.OK, timeline=[Packet(1.0, 2.0)])
    found = figures([cell("a", single)])
    assert found.ok_share is None
    assert found.underrun_s.p50 is None


def test_figures_of_one_server() -> None:
    found = figures([cell("a", outcome(1.0, last_s=4.0, audio_s=2.0), cpu=3.0)])
    assert found.e2e_s.p50 == pytest.approx(4.0)
    assert found.rtf == pytest.approx(2.0)
    assert found.cpu_per_audio_s == pytest.approx(1.5)
    assert found.first_work_s == pytest.approx(0.5)  # at 2 s of wall for each second, 1 s makes half a second


def test_no_work_is_told_where_the_text_was_still_written() -> None:
    assert figures([cell("a", outcome(1.0), scenario=WRITTEN)]).first_work_s is None


def test_no_cpu_seconds_are_made_up() -> None:
    assert figures([cell("a", outcome(1.0), cpu=None)]).cpu_per_audio_s is None


def test_only_those_whom_both_served_are_paired() -> None:
    ours = [outcome(0.1, status=Status.REFUSED), outcome(1.0), outcome(0.1)]
    theirs = [outcome(1.0), outcome(2.0), outcome(0.1, status=Status.FAILED)]
    assert paired_ratio(ours, theirs, lambda one: one.ttfp_s) == pytest.approx(0.5)
    assert paired_ratio(ours[:1], theirs[:1], lambda one: one.ttfp_s) is None


def test_ratios_are_by_round() -> None:
    times = [(1.0, 2.0), (1.0, 4.0), (3.0, 3.0)]
    cells = [cell("ours", outcome(mine), number=number) for number, (mine, _) in enumerate(times)]
    cells += [cell("b", outcome(other), number=number, cpu=2.0) for number, (_, other) in enumerate(times)]
    cells.append(cell("ours", outcome(3.5), number=3))  # a round that the other was not in
    found = versus(cells, "ours", "b", ALONE, same_model=True)
    assert found.rounds == 3
    assert (found.ratios["TTFP"].low, found.ratios["TTFP"].median, found.ratios["TTFP"].high) == (0.25, 0.5, 1.0)
    assert found.ratios["CPU"].median == pytest.approx(0.5)


def test_another_model_is_never_compared_in_seconds() -> None:
    cells = [cell("ours", outcome(1.0)), cell("b", outcome(2.0))]
    found = versus(cells, "ours", "b", ALONE, same_model=False)
    assert found.ratios.keys() == {"first work"}
    assert list(found.underrun_p95_s) == pytest.approx([2.0, 1.0])  # continuity is comparable
    written = [cell("ours", outcome(1.0), scenario=WRITTEN), cell("b", outcome(2.0), scenario=WRITTEN)]
    assert versus(written, "ours", "b", WRITTEN, same_model=False).ratios == {}


# -- The contest -------------------------------------------------------------------------------------------------------


def test_every_server_has_its_turn_to_begin() -> None:
    peers = [PEERS[name] for name in DEFAULT]
    plan = Plan(scenarios=(ALONE, WRITTEN), rounds=len(peers))
    played = list(turns(plan, peers))
    assert len(played) == len(peers) * 2 * plan.rounds
    begins = [peer.name for _number, scenario, peer in played[:: len(peers)] if scenario == ALONE]
    assert sorted(begins) == sorted(DEFAULT)


def test_texts_are_the_same_for_all_and_new_in_each_round() -> None:
    plan, four = Plan(scenarios=(ALONE,), rounds=2), Scenario(4, None)
    assert texts_of(plan, 0, four) == texts_of(plan, 0, four)
    assert texts_of(plan, 0, four) != texts_of(plan, 1, four)
    assert len(set(texts_of(plan, 0, four))) == 4


class Deaf:
    """A client that never hears the end."""

    async def hear(self, port: int, feed: Feed, take: Take, watch: Stopwatch) -> None:
        await asyncio.Event().wait()


def _accepting(site: Site) -> Command:
    return Command((sys.executable, "-m", "http.server", "--bind", "127.0.0.1", str(site.port)))


def _absent(_site: Site) -> Command:
    return Command((sys.executable, "-c", "raise SystemExit('not today')"))


async def test_who_cannot_start_is_told_and_who_hangs_is_cut_off(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bench.peers.contest.WARM_UP_LIMIT_S", 0.1)
    deaf = Peer("deaf", "", "", "", _accepting, Deaf())
    absent = Peer("absent", "", "", "", _absent, Deaf())
    contest = Contest(Plan(scenarios=(ALONE,), rounds=1, limit_s=0.2), [deaf, absent], tmp_path, lambda _line: None)
    await contest.run(tmp_path)
    assert [one.peer for one in contest.cells] == ["deaf"]
    assert [one.status for one in contest.cells[0].outcomes] == [Status.UNFINISHED]
    assert "not today" in contest.failures["absent"]


def test_earlier_rounds_are_kept_and_counted(tmp_path: Path) -> None:
    plan = Plan(scenarios=(ALONE,), rounds=2)
    kept = Kept(plan, (cell("a", outcome(1.0), number=0), cell("a", outcome(1.0), number=1)), ("python",), {"b": "why"})
    path = tmp_path / "cells.json"
    path.write_bytes(dumps(kept))
    assert load(path) == kept
    assert after(plan, kept).first_round == 2
    assert after(Plan(scenarios=(WRITTEN,), rounds=2), kept).first_round == 0
    with pytest.raises(ValueError, match="sentences"):
        after(Plan(scenarios=(ALONE,), rounds=2, sentences=5), kept)


def test_the_result_names_who_is_compared_and_who_is_missing() -> None:
    peers = [PEERS[OURS], PEERS["whole-sentence"], PEERS["wyoming-piper"]]
    cells = tuple(cell(peer.name, outcome(1.0 + number)) for number, peer in enumerate(peers))
    kept = Kept(Plan(scenarios=(ALONE,), rounds=1), cells, (), {"fastkokoro": "not installed"})
    found = result(kept, peers, peers[0], {"cores": "2"}, None)
    text = str(found)
    assert "fastkokoro" in text
    assert "not installed" in text
    assert found.headline == "Alone, our first packet takes 0.50 times whole-sentence's"
    assert [one.peer for one in against(cells, peers, peers[0])] == ["whole-sentence", "wyoming-piper"]


def test_qwen3_tts_is_taken_from_its_own_benchmark(tmp_path: Path) -> None:
    table = Table("In turns", ("medians", "RTF"), (("ours", 0.5), ("reference", 1.0)))
    found = Result(qwen3_tts.PROGRAM, "Faster?", {"command": "python -m that"}, tables=(table,))
    path = tmp_path / "result.json"
    path.write_bytes(results.dumps(found))
    peers = [PEERS[OURS], PEERS["whole-sentence"]]
    kept = Kept(Plan(scenarios=(ALONE,), rounds=1), tuple(cell(peer.name, outcome(1.0)) for peer in peers))
    shown = result(kept, peers, peers[0], {}, qwen3_tts.load(path)).tables[-1]
    assert (shown.title, shown.rows, shown.note) == ("Qwen3-TTS: In turns", table.rows, "python -m that")
    path.write_bytes(results.dumps(replace(found, bench="bench.other")))
    with pytest.raises(ValueError, match="is not what"):
        qwen3_tts.load(path)


# -- The command -------------------------------------------------------------------------------------------------------


def test_a_smoke_run_compares_two_live_servers(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cells, page, figures_file = tmp_path / "cells.json", tmp_path / "page.html", tmp_path / "result.json"
    assert peers_main.main(["--smoke", "--cells", str(cells)]) == 0
    assert (
        peers_main.main(
            ["--smoke", "--rounds", "0", "--cells", str(cells), "--report", str(page), "--json", str(figures_file)]
        )
        == 0
    )
    out = capsys.readouterr().out
    assert "2 at once, 200 tokens/s: tone-whole-sentence" in out
    assert "Ours against theirs" in out
    kept = load(cells)
    assert {one.status for played in kept.cells for one in played.outcomes} == {Status.OK}
    assert {played.scenario.listeners for played in kept.cells} == {1, 2}
    assert "<svg" in page.read_text("utf-8")
    assert json.loads(figures_file.read_bytes())["bench"] == "bench.peers"


def test_who_is_not_installed_is_told_how(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["--peers", "fastkokoro", "--cache", str(tmp_path), "--rounds", "1", "--listeners", "1"]
    assert peers_main.main(arguments) == 2
    assert "python -m bench.peers --setup fastkokoro" in capsys.readouterr().err


def test_a_cells_file_that_is_none_is_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "cells.json").write_text("{}")
    assert peers_main.main(["--cells", str(tmp_path / "cells.json"), "--rounds", "0"]) == 2
    assert "Error" in capsys.readouterr().err


def test_help_teaches(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        peers_main.main(["--help"])
    out = capsys.readouterr().out
    assert all(name in out for name in PEERS)
