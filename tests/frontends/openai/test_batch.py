"""Batches: every item is spoken or fails on its own, a few at a time, and all of them end with the client."""

import asyncio
import base64
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any
from unittest.mock import Mock

import pytest

from realtime_tts.engine.config import EngineConfig
from realtime_tts.engine.models import tone
from realtime_tts.engine.stage import StageInput
from realtime_tts.errors import BatchTooBig, InvalidMessage, NothingToSpeak, QuotaExceeded, RealtimeTTSError
from realtime_tts.frontends.openai.api import HttpLimits
from realtime_tts.frontends.openai.batch import BatchItem, Item, results_in_order, split_batch
from realtime_tts.frontends.openai.speech import parse_speech
from realtime_tts.session.frontend import FrontEnd
from realtime_tts.session.runner import SessionRunner
from tests.fakes import Gate, raises_for, spoken_pcm, until
from tests.frontends.openai.harness import Served, serving

PATH = "/v1/audio/speech/batch"


async def post(served: Served, **fields: object) -> tuple[int, Any]:
    async with served.http.post(served.url + PATH, json=fields) as response:
        return response.status, await response.json()


def items_of(*texts: str) -> list[dict[str, str]]:
    return [{"input": text} for text in texts]


async def test_items_have_their_own_fields_and_else_the_shared_ones() -> None:
    async with serving() as served:
        items = [
            {"input": "One."},
            {"input": "Two.", "voice": "tone_high"},
            {"input": "Three.", "voice": None},
        ]
        status, body = await post(served, items=items, response_format="pcm", voice="tone_low")
        assert status == 200
        assert body.keys() == {"id", "results", "total", "succeeded", "failed"}
        assert (body["total"], body["succeeded"], body["failed"]) == (3, 3, 0)
        for index, result in enumerate(body["results"]):
            assert result.keys() == {"index", "status", "audio_data", "media_type"}
            assert (result["index"], result["status"]) == (index, "success")
            assert result["media_type"] == "audio/pcm;rate=24000"
        found = [base64.b64decode(result["audio_data"]) for result in body["results"]]
        assert found == [spoken_pcm("One."), spoken_pcm("Two.", voice="tone_high"), spoken_pcm("Three.")]
        await served.idle()


async def test_an_item_is_a_whole_wav_by_default_also_if_it_is_long() -> None:
    text = "This is a sentence of some length. " * 20
    async with serving() as served:
        _status, body = await post(served, items=items_of(text), stream=True)
        (result,) = body["results"]
        data = base64.b64decode(result["audio_data"])
        assert result["media_type"] == "audio/wav"
        assert int.from_bytes(data[4:8], "little") == len(data) - 8, "the header has the length"


async def test_only_a_bad_item_fails() -> None:
    # One at a time: a stage that raises fails all requests of its launch.
    async with serving(before=raises_for("Broken."), limits=HttpLimits(batch_concurrency=1)) as served:
        items = [
            {"input": "Good."},
            {"input": "Hello.", "voice": "nobody"},
            {"input": ""},
            {},
            "text",
            {"input": 7},
            {"input": "Hello.", "speed": 9},
            {"input": "x" * 5000},
            {"input": "Broken."},
            {"input": "Good too."},
        ]
        status, body = await post(served, items=items, response_format="pcm")
        assert (status, body["total"], body["succeeded"], body["failed"]) == (200, 10, 2, 8)
        assert [result["index"] for result in body["results"]] == list(range(10))
        assert [result["status"] == "success" for result in body["results"]] == [True, *[False] * 8, True]
        errors = [(result["code"], result["param"]) for result in body["results"][1:-1]]
        assert errors == [
            ("unknown_voice", "voice"),
            ("nothing_to_speak", "input"),
            ("invalid_message", "input"),
            ("invalid_message", "items"),
            ("invalid_message", "input"),
            ("invalid_config", "speed"),
            ("text_too_long", "input"),
            ("synthesis_failed", None),
        ]
        assert "nobody" in body["results"][1]["error"]
        await served.idle()


def test_a_batch_that_is_no_list_is_empty_or_too_big_is_refused() -> None:
    cases: tuple[tuple[object, type[RealtimeTTSError]], ...] = (
        (None, InvalidMessage),
        ([], InvalidMessage),
        ({"input": "Hello."}, InvalidMessage),
        ("Hello.", InvalidMessage),
        (items_of("a") * 10_000, BatchTooBig),
        (items_of("a" * 600, "b" * 600), BatchTooBig),
    )
    for items, kind in cases:
        with pytest.raises(kind) as refused:
            split_batch({"items": items}, max_items=100, max_chars=1000)
        assert refused.value.param == "items", str(items)[:80]


async def test_ten_thousand_items_are_refused_with_the_limit() -> None:
    async with serving(limits=HttpLimits(max_batch_items=7)) as served:
        status, body = await post(served, items=items_of("Hello.") * 10_000)
    assert (status, body["error"]["code"], body["error"]["param"]) == (400, "batch_too_big", "items")
    assert "7 items, got 10000" in body["error"]["message"]


async def test_a_few_items_are_spoken_at_a_time() -> None:
    gate, running = Gate(), set[str]()

    def wait(rows: Sequence[StageInput]) -> None:
        running.update(row.request.request_id for row in rows)
        gate(rows)

    async with serving(before=wait, limits=HttpLimits(batch_concurrency=2)) as served:
        asking = asyncio.create_task(post(served, items=items_of(*"ABCDE")))
        try:
            await until(lambda: served.server.active_sessions == 2)
            await asyncio.sleep(0.05)
            assert served.server.active_sessions == 2
        finally:
            gate.opened.set()
        _status, body = await asking
    assert body["succeeded"] == 5


async def test_on_a_full_engine_items_wait_for_those_before_them() -> None:
    async with serving(config=EngineConfig(max_requests=1)) as served:
        texts = [f"This is item number {number}." for number in range(6)]
        _status, body = await post(served, items=items_of(*texts), response_format="pcm")
        assert [result["status"] for result in body["results"]] == ["success"] * 6, body
        found = [base64.b64decode(result["audio_data"]) for result in body["results"]]
        assert found == [spoken_pcm(text) for text in texts]
        await served.idle()


def end_item(item: BatchItem) -> None:
    raise NothingToSpeak(item.speech.text)


class Places:
    """Sessions that are refused while there are `places` of them already."""

    def __init__(self, places: int) -> None:
        self.places, self.open, self.refused = places, 0, 0

    @asynccontextmanager
    async def __call__(self, front_end: FrontEnd, item: BatchItem, _index: int) -> AsyncIterator[SessionRunner]:
        if self.open >= self.places:
            self.refused += 1
            raise QuotaExceeded("all sessions are open")
        self.open += 1
        try:
            await asyncio.sleep(0)
            end_item(item)
            yield Mock(SessionRunner)
        finally:
            self.open -= 1


async def test_an_item_is_refused_only_if_no_other_item_is_being_spoken() -> None:
    info = tone.info()
    items: list[Item] = [
        BatchItem(
            parse_speech({"input": str(n)}, info, lambda name: {"voice": name}, max_chars=9, max_whole_chars=9),
            info,
            "tone",
        )
        for n in range(7)
    ]
    for places, codes in ((4, {"nothing_to_speak"}), (1, {"nothing_to_speak"}), (0, {"quota_exceeded"})):
        open_item = Places(places)
        results = [result async for result in results_in_order(items, open_item, 4)]
        assert {result.code for result in results if isinstance(result, RealtimeTTSError)} == codes, places
        texts = [str(result) for result in results]
        assert places == 0 or texts == [str(n) for n in range(7)], places
        assert (open_item.refused > 0) is (places < 4), places


async def test_a_disconnect_stops_all_items() -> None:
    gate = Gate()
    async with serving(tone.build(), before=gate) as served:
        asking = asyncio.create_task(post(served, items=items_of(*"ABCDEFGH")))
        try:
            await until(lambda: served.server.active_sessions == 4)
            asking.cancel()
            await until(lambda: served.server.active_sessions == 0)
        finally:
            gate.opened.set()
        await served.idle()


async def test_fields_without_effect_are_named_in_a_header() -> None:
    async with serving() as served:
        fields = {"items": [{"input": "Hello.", "x": 1}], "stream": True}
        async with served.http.post(served.url + PATH, json=fields) as response:
            assert response.headers["X-Realtime-TTS-Ignored"] == "stream, x"
            assert json.loads(await response.read())["succeeded"] == 1
