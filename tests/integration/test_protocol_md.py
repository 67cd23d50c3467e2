"""protocol.md: its messages are valid, its conversations happen as written, its tables are complete."""

import json
import re
from pathlib import Path
from typing import Any

import msgspec
import websockets.asyncio.client

from realtime_tts import errors
from realtime_tts.engine.models import tone
from realtime_tts.frontends.native.decode import decode
from realtime_tts.frontends.native.messages import (
    CLIENT_MESSAGES,
    SERVER_MESSAGES,
    STREAM_PATH,
    SessionConfig,
    decode_server_message,
)
from realtime_tts.frontends.sglang import messages as sglang
from tests.serving import answering, tone_server

PAGE = (Path(__file__).parents[2] / "protocol.md").read_text("utf-8")
MESSAGES = re.findall(r"```json\n(.*?)```", PAGE, re.DOTALL)
CONVERSATIONS = re.findall(r"```text\n(.*?)```", PAGE, re.DOTALL)

MEASURED = re.compile(
    r"session_id|response_id|id|expires_at|ttfp_ms|ttfa_ms|rtf|queue_ms|max_underrun_ms|underrun_\w+|text_starvation_ms"
    r"|continuity_ok|chunks|packets|initial_chunk_frames"
)
"""Fields whose values differ between runs: their presence and type are checked."""


def test_the_document_has_messages_and_conversations() -> None:
    assert len(MESSAGES) >= 5
    assert len(CONVERSATIONS) >= 3


def test_every_client_message_is_valid() -> None:
    for block in MESSAGES:
        assert decode(block.encode(), is_binary=False, max_message_bytes=len(block) * 4), block


async def test_every_conversation_happens_as_written() -> None:
    for conversation in CONVERSATIONS:
        await replay(conversation)


async def replay(conversation: str) -> None:
    """Sends the lines of the client, `C`, and compares those of the server, `S`."""
    lines = [line.split(" ", 1) for line in conversation.strip().splitlines()]
    is_sglang = '"session": {' in lines[0][1]
    async with (
        answering() as answers,
        tone_server(other_engines={"answers": answers}) as (url, _),
        websockets.asyncio.client.connect(url.replace("http", "ws") + STREAM_PATH) as socket,
    ):
        for sender, line in lines:
            if sender == "C":
                await socket.send(line)
            elif line.startswith("{"):
                frame = await socket.recv()
                assert isinstance(frame, str)
                decoded = is_sglang_message(frame) if is_sglang else decode_server_message(frame) is not None
                assert decoded, frame
                assert comparable(json.loads(frame)) == comparable(json.loads(line))
            elif size := re.fullmatch(r"\(binary, (\d+) bytes in all\)", line):
                left = int(size[1])  # the number of frames depends on the scheduler
                while left > 0:
                    frame = await socket.recv()
                    assert isinstance(frame, bytes)
                    left -= len(frame)
                assert left == 0
            else:
                code = re.fullmatch(r"\(close (\d+)\)", line)
                assert code, f"unknown line {line!r}"
                await socket.wait_closed()
                assert socket.close_code == int(code[1])


def is_sglang_message(frame: str) -> bool:
    kind = sglang.SERVER_MESSAGES[json.loads(frame)["type"]]
    return isinstance(msgspec.json.decode(frame, type=kind), kind)


def comparable(value: Any, key: str = "") -> Any:
    if isinstance(value, dict):
        return {name: comparable(inner, name) for name, inner in value.items()}
    if isinstance(value, list):
        return [comparable(inner) for inner in value]
    if MEASURED.fullmatch(key):
        number = isinstance(value, int | float) and not isinstance(value, bool)
        return float if number else str if isinstance(value, str) else bool  # null if a flag does not apply
    return value


def rows(heading: str) -> str:
    return PAGE.split(heading, 1)[1].split("\n##", 1)[0]


def test_every_client_message_is_in_the_table() -> None:
    for kind in CLIENT_MESSAGES:
        assert f"| `{kind}` |" in rows("## Client to server"), kind


def test_every_message_of_the_server_is_in_the_tables() -> None:
    for kind in SERVER_MESSAGES:
        assert f"| `{kind}` |" in rows("## Server to client"), kind
    for kind, message in sglang.SERVER_MESSAGES.items():
        (row,) = (line for line in rows("### SGLang-Omni").splitlines() if line.startswith(f"| `{kind}` |"))
        for field in message.__struct_fields__:
            assert f"`{field}" in row, (kind, field)


def test_every_config_field_is_in_the_table() -> None:
    for field in SessionConfig.__struct_fields__:
        assert f"`{field}`" in rows("### session.config"), field


def test_every_error_that_a_client_can_receive_is_in_the_table() -> None:
    codes = {
        error.code
        for error in vars(errors).values()
        if isinstance(error, type)
        and issubclass(error, errors.RealtimeTTSError)
        and not issubclass(error, errors.OperatorError)
    }
    for code in codes:
        assert f"`{code}`" in rows("### Errors and closes"), code


def test_the_voices_of_the_conversations_exist() -> None:
    named = set(re.findall(r'"voice": ?"(\w+)"', PAGE))
    assert named - {"nobody"} <= set(tone.info().voice_names)
