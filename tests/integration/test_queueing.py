"""Servers without free capacity: a client's next utterance waits, and plain HTTP requests are queued."""

import asyncio
import contextlib
import json
from collections.abc import Sequence
from typing import Any

import pytest

from realtime_tts.client import Audio, ClientSession, SessionEnded, connect
from realtime_tts.engine.config import EngineConfig
from realtime_tts.engine.models import tone
from realtime_tts.engine.stage import Model, StageInput
from realtime_tts.frontends.native.messages import SessionDone
from realtime_tts.ops.metrics import Metrics
from tests.base_client import base_client
from tests.fakes import Gate, spoken_pcm, until, with_slots
from tests.frontends.openai.harness import Served, serving
from tests.serving import tone_server

STREAM = {"response_format": "pcm", "stream_audio": True, "voice": "tone_low"}
TEXT = "Hello there, world."


def one_place(**options: Any) -> Model:
    """A model that serves one listener at a time."""
    return with_slots(tone.build(**options), "talker", 1)


# -- A client's next utterance -----------------------------------------------------------------------------------------


async def test_utterances_sent_one_behind_the_other_are_all_spoken_on_one_place() -> None:
    texts = ["Yes.", "No.", "Maybe."]
    async with tone_server(one_place()) as (url, _server), base_client(url, **STREAM) as client:
        for text in texts:
            await client.send_utterance(text)
        utterances = [await client.utterance() for _ in texts]
    for text, utterance in zip(texts, utterances, strict=True):
        assert utterance.audio == [spoken_pcm(text)]
        assert utterance.done["outcomes"] == ["complete"]
        assert not utterance.errors


async def test_a_reply_to_an_interruption_is_not_refused_for_lack_of_capacity() -> None:
    model = one_place(costs=tone.ToneCosts(a0_s=0.005))
    async with tone_server(model) as (url, server), base_client(url, **STREAM) as client:
        await client.send_utterance("This will be interrupted soon. It goes on for a while.")
        await client.next("audio.start")
        other = asyncio.create_task(refusal_or_audio(url))
        await client.send({"type": "input.cancel"})
        await client.next("session.done")
        assert (await client.speak("Sorry, go on.")).audio == [spoken_pcm("Sorry, go on.")]
        await other
        await until(lambda: server.engine_status().active_requests == 0)


async def refusal_or_audio(url: str) -> None:
    with contextlib.suppress(SessionEnded):
        async with connect(url) as session:
            await session.send_text("Another listener comes at the same time.")
            await session.done()
            async for _event in session.utterance():
                pass


class Speaker:
    """Speaks several utterances, and sends each as soon as the one before it is played.  Retries until the first one is
    accepted."""

    def __init__(self, url: str, number: int) -> None:
        self._url = url
        self.texts = [f"Speaker {number}, utterance {each}." for each in range(3)]
        self.received: list[bytes] = []
        self.reasons: list[str] = []

    async def run(self) -> None:
        while not self.received:
            try:
                async with connect(self._url) as session:
                    await self._speak(session)
            except SessionEnded as refused:
                if self.received or refused.received_close_code != 1013:
                    raise
                await asyncio.sleep(0.2)

    async def _speak(self, session: ClientSession) -> None:
        for number, text in enumerate(self.texts):
            if number == 0:
                await self._send(session, text)
            audio = b""
            async for event in session.utterance():
                if isinstance(event, Audio):
                    if not audio and number + 1 < len(self.texts):
                        await self._send(session, self.texts[number + 1])
                    audio += event.data
                    self.received[number:] = [audio]
                elif isinstance(event, SessionDone):
                    self.reasons.append(event.reason)

    async def _send(self, session: ClientSession, text: str) -> None:
        await session.send_text(text)
        await session.done()


async def speak_all(speakers: list[Speaker]) -> None:
    async with asyncio.timeout(100):
        await asyncio.gather(*(speaker.run() for speaker in speakers))
    for speaker in speakers:
        assert speaker.received == [spoken_pcm(text) for text in speaker.texts]
        assert speaker.reasons == ["complete"] * len(speaker.texts)


async def test_no_speaker_on_a_full_server_loses_an_utterance_sent_ahead() -> None:
    model = with_slots(tone.build(costs=tone.ToneCosts(a0_s=0.001)), "talker", 4)
    async with tone_server(model) as (url, _server):
        await speak_all([Speaker(url, number) for number in range(8)])


@pytest.mark.slow
async def test_32_speakers_at_the_costs_of_an_h20_lose_no_utterance_sent_ahead() -> None:
    async with tone_server(with_slots(tone.build(profile="h20"), "talker", 16)) as (url, _server):
        await speak_all([Speaker(url, number) for number in range(32)])


# -- Plain HTTP requests -----------------------------------------------------------------------------------------------


async def ask_all(served: Served, count: int, **fields: object) -> list[tuple[int, Any, bytes]]:
    return await asyncio.gather(*(served.ask(input=TEXT, response_format="wav", **fields) for _ in range(count)))


async def queued(served: Served, count: int) -> None:
    await until(lambda: served.server.engine_status().queued_requests == count)


async def test_three_requests_at_once_all_succeed_on_one_place() -> None:
    async with serving(one_place(costs=tone.ToneCosts(a0_s=0.002))) as served:
        for response_format in ("wav", "mp3", "pcm"):
            requests = (served.ask(input=TEXT, response_format=response_format) for _ in range(3))
            answers = await asyncio.gather(*requests)
            assert [status for status, _headers, _body in answers] == [200] * 3
            assert len({body for _status, _headers, body in answers}) == 1
        await served.idle()


async def test_twenty_calls_of_the_openai_client_all_succeed_on_one_place() -> None:
    async with serving(one_place(costs=tone.ToneCosts(a0_s=0.001))) as served, served.openai() as client:
        calls = (
            client.audio.speech.create(model="tone", voice="tone_low", input=TEXT, response_format="pcm")
            for _ in range(20)
        )
        answers = await asyncio.gather(*calls)
        assert {answer.content for answer in answers} == {spoken_pcm(TEXT)}
        await served.idle()


@pytest.mark.slow
async def test_requests_beyond_the_queue_succeed_after_the_time_of_their_retry_after() -> None:
    config = EngineConfig(max_queued=6)
    async with serving(one_place(costs=tone.ToneCosts(a0_s=0.002)), config=config) as served:
        answers = await ask_all(served, 20)
        refused = [(headers, json.loads(body)) for status, headers, body in answers if status == 503]
        assert sum(status == 200 for status, _headers, _body in answers) == 7
        assert len(refused) == 13
        for _headers, body in refused:
            assert body["error"]["code"] == "overloaded"
            assert "6 requests are queued" in body["error"]["message"]
        retry_s = sorted(int(headers["Retry-After"]) for headers, _body in refused)
        assert retry_s[-1] <= 3
        statuses = await asyncio.gather(*(ask_again(served, after_s) for after_s in retry_s))
        assert statuses == [200] * 13
        await served.idle()


async def ask_again(served: Served, after_s: int) -> int:
    await asyncio.sleep(after_s)
    status, _headers, _body = await served.ask(input=TEXT)
    return status


async def test_a_request_that_waits_too_long_gets_503_with_a_time_to_retry() -> None:
    gate = Gate()
    async with serving(one_place(), before=gate, config=EngineConfig(queue_s=0.1)) as served:
        first = asyncio.create_task(served.ask(input=TEXT, response_format="pcm"))
        await until(gate.entered.is_set)
        status, headers, body = await served.ask(input=TEXT)
        error = json.loads(body)["error"]
        assert (status, error["code"], error["type"]) == (503, "overloaded", "server_error")
        assert error["message"].startswith("at the capacity of 1 listeners: waited 0.1 s for it; retry in about")
        assert 1 <= int(headers["Retry-After"]) <= 60
        gate.opened.set()
        assert (await first)[0] == 200
        await served.idle()


async def test_a_live_request_is_refused_at_once_where_a_plain_one_is_queued() -> None:
    gate = Gate()
    async with serving(one_place(), before=gate) as served:
        first = asyncio.create_task(served.ask(input=TEXT))
        await until(gate.entered.is_set)
        for live in ({"stream": True}, {"stream_format": "sse"}):
            status, error = await served.refused(input=TEXT, **live)
            assert (status, error["code"]) == (503, "overloaded"), live
        plain = [asyncio.create_task(served.ask(input=TEXT, **fields)) for fields in ({}, {"stream": False})]
        await queued(served, 2)
        gate.opened.set()
        answers = await asyncio.gather(first, *plain)
        assert [status for status, _headers, _body in answers] == [200] * 3
        await served.idle()


async def test_a_listener_goes_before_the_requests_that_were_queued_earlier() -> None:
    gate, order = Gate(), list[str]()

    def before(batch: Sequence[StageInput]) -> None:
        order.extend(row.request.text for row in batch if row.request.text not in order)
        gate(batch)

    async with serving(one_place(), before=before, config=EngineConfig(max_wait_s=None)) as served:
        tasks = [asyncio.create_task(served.ask(input="First."))]
        await until(gate.entered.is_set)
        tasks.append(asyncio.create_task(served.ask(input="Plain.")))
        await queued(served, 1)
        tasks.append(asyncio.create_task(served.ask(input="Live.", stream=True)))
        await until(lambda: served.server.engine_status().waiting_requests == 2)
        gate.opened.set()
        answers = await asyncio.gather(*tasks)
        assert [status for status, _headers, _body in answers] == [200] * 3
        assert order == ["First.", "Live.", "Plain."]


async def test_a_client_that_disconnects_while_it_is_queued_leaves_the_queue() -> None:
    gate = Gate()
    async with serving(one_place(), before=gate) as served:
        first = asyncio.create_task(served.ask(input=TEXT))
        await until(gate.entered.is_set)
        leaving = [asyncio.create_task(served.ask(input=TEXT)) for _ in range(3)]
        await queued(served, 3)
        for task in leaving:
            task.cancel()
        await queued(served, 0)
        await until(lambda: served.server.active_sessions == 1)
        gate.opened.set()
        assert (await first)[0] == 200
        await served.idle()


async def test_the_queue_is_visible_to_operators() -> None:
    gate, metrics = Gate(), Metrics()
    async with serving(one_place(), before=gate) as served:
        metrics.watch_engine("tone", served.server.engine_status)
        first = [asyncio.create_task(served.ask(input=TEXT)) for _ in range(3)]
        await queued(served, 2)
        assert (await served.get("/readyz"))["queued_requests"] == 2
        assert 'realtime_tts_engine_requests_queued{engine="tone"} 2.0' in metrics.text().decode()
        gate.opened.set()
        await asyncio.gather(*first)
