"""Many texts in one request: each item is spoken, or fails, on its own."""

import asyncio
import base64
import logging
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass

import msgspec
from aiohttp import web

from realtime_tts.engine.api import ModelInfo
from realtime_tts.errors import (
    BatchTooBig,
    InternalError,
    InvalidMessage,
    Overloaded,
    QuotaExceeded,
    RealtimeTTSError,
)
from realtime_tts.frontends.openai.messages import BatchFailure, BatchSuccess
from realtime_tts.frontends.openai.speech import IGNORED_HEADER, Fields, Speech, SpokenFile, as_header
from realtime_tts.session.frontend import Frame, FrontEnd
from realtime_tts.session.runner import SessionRunner
from realtime_tts.text.unicode import printable

log = logging.getLogger(__name__)

DEFAULT_FORMAT = "wav"
"""vLLM-Omni's."""
PIECE_BYTES = 48 * 1024
"""Of base64 at a time, a multiple of 3: larger ones would delay all other sessions."""
_STREAM_FIELDS = ("stream", "stream_format")
"""Without effect: an item is a whole file."""


@dataclass(frozen=True, slots=True)
class BatchItem:
    speech: Speech
    info: ModelInfo
    model: str


OpenItem = Callable[[FrontEnd, BatchItem, int], AbstractAsyncContextManager[SessionRunner]]
"""A session for an item and its index.  Raises a `RealtimeTTSError` if it is refused."""
Item = BatchItem | RealtimeTTSError
"""What is to be spoken, or why it cannot be."""


def split_batch(fields: Fields, *, max_items: int, max_chars: int) -> list[Fields | RealtimeTTSError]:
    """The fields of each item: its own, and else the shared ones.  Raises `InvalidMessage` or `BatchTooBig`."""
    items = fields.get("items")
    if not isinstance(items, list) or not items:
        raise InvalidMessage("must be a list of at least one object", param="items")
    if len(items) > max_items:
        raise BatchTooBig(f"a batch may have {max_items} items, got {len(items)}", param="items")
    shared = {"response_format": DEFAULT_FORMAT, **fields}
    del shared["items"]
    shared.pop("input", None)
    merged = [_merged(shared, item) for item in items]
    texts = [item["input"] for item in merged if isinstance(item, dict) and isinstance(item.get("input"), str)]
    if (chars := sum(map(len, texts))) > max_chars:
        raise BatchTooBig(f"the texts of a batch may have {max_chars} characters together, got {chars}", param="items")
    return merged


def _merged(shared: Fields, item: object) -> Fields | RealtimeTTSError:
    if not isinstance(item, dict):
        return InvalidMessage("an item must be an object", param="items")
    own = {str(name): value for name, value in item.items() if value is not None}
    return {**shared, **own, "stream": False, "stream_format": "audio"}


def ignored_fields(items: Sequence[Item], fields: Fields) -> tuple[str, ...]:
    names = [name for item in items if isinstance(item, BatchItem) for name in item.speech.ignored]
    return (*(name for name in _STREAM_FIELDS if name in fields), *names)


# -- Synthesis --------------------------------------------------------------------------------------------------------


class _ItemFrontEnd(SpokenFile):
    """Keeps the bytes."""

    def __init__(self, speech: Speech, info: ModelInfo) -> None:
        super().__init__(speech, info)
        self._data = bytearray()

    async def send(self, frame: Frame) -> None:
        self._data += frame.data

    def abort(self) -> None:
        pass  # the session ends by itself, and the other items go on

    async def finish(self) -> bytes:
        """The whole file.  Raises a `RealtimeTTSError` if not all of the text was spoken."""
        self._check_spoken()
        for packet in await asyncio.to_thread(self._encoder.flush):
            self._data += packet.data
        return bytes(self._data)


Result = bytes | RealtimeTTSError


async def results_in_order(
    items: Sequence[Item], open_item: OpenItem, concurrency: int
) -> AsyncGenerator[Result, None]:
    """Speaks up to `concurrency` items at a time.  When the generator is closed, all speech ends.

    An item that is refused for lack of capacity while others are being spoken waits until one of them has ended: fewer
    at a time then share the rest.
    """
    waiting = deque(range(len(items)))
    outcomes: list[asyncio.Future[Result]] = [asyncio.get_running_loop().create_future() for _ in items]
    workers = 0

    async def work() -> None:
        nonlocal workers
        while waiting:
            index = waiting.popleft()
            outcome = await _outcome(items[index], index, open_item)
            if isinstance(outcome, Overloaded | QuotaExceeded) and workers > 1:
                waiting.appendleft(index)
                break
            outcomes[index].set_result(outcome)
        workers -= 1

    tasks = []
    for _ in range(min(concurrency, len(items))):
        workers += 1
        tasks.append(asyncio.create_task(work()))
    try:
        for outcome in outcomes:
            yield await outcome
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _outcome(item: Item, index: int, open_item: OpenItem) -> Result:
    if isinstance(item, RealtimeTTSError):
        return item
    front_end = _ItemFrontEnd(item.speech, item.info)
    try:
        async with open_item(front_end, item, index) as runner:
            await runner.run()
            return await front_end.finish()
    except RealtimeTTSError as error:
        return error
    except Exception:
        log.exception("an item of a batch failed")
        return InternalError("something went wrong on the server")


# -- The response -----------------------------------------------------------------------------------------------------


async def respond(
    request: web.Request,
    batch_id: str,
    items: Sequence[Item],
    results: AsyncIterator[Result],
    ignored: tuple[str, ...],
    write_timeout_s: float,
) -> web.StreamResponse:
    """Sends each result when it and those before it are there."""
    response = web.StreamResponse(headers={"Content-Type": "application/json", "X-Accel-Buffering": "no"})
    if ignored:
        response.headers[IGNORED_HEADER] = as_header(ignored)
    response.enable_chunked_encoding()
    try:
        async for piece in _body(batch_id, items, results):
            if not response.prepared:
                await response.prepare(request)
            async with asyncio.timeout(write_timeout_s):
                await response.write(piece)
        await response.write_eof()
    except (ConnectionError, TimeoutError):  # the client has left, or does not read
        if request.transport is not None:
            request.transport.abort()
    return response


async def _body(batch_id: str, items: Sequence[Item], results: AsyncIterator[Result]) -> AsyncIterator[bytes]:
    succeeded, index = 0, 0
    separator = b'{"id":"batch-%s","results":[' % batch_id.encode()
    async for result in results:
        yield separator
        for piece in _result_json(index, items[index], result):
            yield piece
        succeeded += isinstance(result, bytes)
        separator, index = b",", index + 1
    yield b'],"total":%d,"succeeded":%d,"failed":%d}' % (index, succeeded, index - succeeded)


def _result_json(index: int, item: Item, result: Result) -> Iterator[bytes]:
    """The JSON of one result, in pieces."""
    if isinstance(result, RealtimeTTSError):
        failure = BatchFailure(index=index, error=printable(result.message), code=result.code, param=result.param)
        yield msgspec.json.encode(failure)
        return
    assert isinstance(item, BatchItem), "only an item can be spoken"
    success = BatchSuccess(index=index, media_type=item.speech.audio_format.mime_type, audio_data="")
    head, tail = msgspec.json.encode(success).split(b'"audio_data":""')
    yield head + b'"audio_data":"'
    for at in range(0, len(result), PIECE_BYTES):
        yield base64.b64encode(result[at : at + PIECE_BYTES])
    yield b'"' + tail
