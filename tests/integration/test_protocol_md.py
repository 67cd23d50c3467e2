"""protocol.md is the contract: every message in it is one of ours, every conversation happens just so."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
import websockets.asyncio.client

from realtime_tts import errors
from realtime_tts.engine.models import tone
from realtime_tts.frontends.native.decode import decode
from realtime_tts.frontends.native.messages import (
    CLIENT_MESSAGES,
    STREAM_PATH,
    SessionConfig,
    decode_server_message,
)
from tests.serving import tone_server

PAGE = (Path(__file__).parents[2] / "protocol.md").read_text("utf-8")
MESSAGES = re.findall(r"```json\n(.*?)```", PAGE, re.DOTALL)
CONVERSATIONS = re.findall(r"```text\n(.*?)```", PAGE, re.DOTALL)

MEASURED = re.compile(
    r"session_id|expires_at|ttfp_ms|ttfa_ms|rtf|queue_ms|max_underrun_ms|underrun_\w+|text_starvation_ms"
    r"|continuity_ok|chunks|packets|initial_chunk_frames"
)
"""Fields whose values differ from run to run: only their presence and kind are the contract."""


def test_the_page_has_messages_and_conversations() -> None:
    assert len(MESSAGES) >= 5
    assert len(CONVERSATIONS) >= 3


@pytest.mark.parametrize("block", MESSAGES)
def test_every_message_on_the_page_is_one_of_ours(block: str) -> None:
    assert decode(block.encode(), is_binary=False, max_message_bytes=len(block) * 4)


@pytest.mark.parametrize("conversation", CONVERSATIONS)
async def test_every_conversation_on_the_page_happens_just_so(conversation: str) -> None:
    lines = [line.split(" ", 1) for line in conversation.strip().splitlines()]
    async with (
        tone_server() as (url, _),
        websockets.asyncio.client.connect(url.replace("http", "ws") + STREAM_PATH) as socket,
    ):
        for who, what in lines:
            if who == "C":
                await socket.send(what)
            elif what.startswith("{"):
                frame = await socket.recv()
                assert isinstance(frame, str)
                assert decode_server_message(frame) is not None
                assert comparable(json.loads(frame)) == comparable(json.loads(what))
            elif size := re.fullmatch(r"\(binary, (\d+) bytes in all\)", what):
                left = int(size[1])  # in how many frames is the scheduler's affair
                while left > 0:
                    frame = await socket.recv()
                    assert isinstance(frame, bytes)
                    left -= len(frame)
                assert left == 0
            else:
                code = re.fullmatch(r"\(close (\d+)\)", what)
                assert code, f"what is {what!r}?"
                await socket.wait_closed()
                assert socket.close_code == int(code[1])


def comparable(value: Any, key: str = "") -> Any:
    if isinstance(value, dict):
        return {name: comparable(inner, name) for name, inner in value.items()}
    if isinstance(value, list):
        return [comparable(inner) for inner in value]
    if MEASURED.fullmatch(key):
        number = isinstance(value, int | float) and not isinstance(value, bool)
        return float if number else str if isinstance(value, str) else bool  # null where a flag does not apply
    return value


def rows(heading: str) -> str:
    return PAGE.split(heading, 1)[1].split("\n##", 1)[0]


@pytest.mark.parametrize("kind", CLIENT_MESSAGES)
def test_every_message_of_a_client_is_in_the_table(kind: str) -> None:
    assert f"| `{kind}` |" in rows("## Client to server")


@pytest.mark.parametrize("field", [name for name in SessionConfig.__struct_fields__ if name != "unknown"])
def test_every_config_field_is_in_the_table(field: str) -> None:
    assert f"`{field}`" in rows("### session.config")


@pytest.mark.parametrize(
    "code",
    sorted(
        {
            error.code
            for error in vars(errors).values()
            if isinstance(error, type)
            and issubclass(error, errors.RealtimeTTSError)
            and not issubclass(error, errors.OperatorError)
        }
    ),
)
def test_every_error_that_a_client_can_meet_is_in_the_table(code: str) -> None:
    assert f"`{code}`" in rows("### Errors and closes")


def test_the_voices_of_the_conversations_exist() -> None:
    named = set(re.findall(r'"voice": ?"(\w+)"', PAGE))
    assert named - {"nobody"} <= set(tone.info().voice_names)
