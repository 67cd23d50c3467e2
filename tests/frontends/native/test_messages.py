"""Decoding of server messages, for clients."""

import msgspec

from realtime_tts.frontends.native.messages import ServerError, decode_server_message, encode


def test_a_message_of_an_unknown_type_is_decoded_as_none() -> None:
    assert decode_server_message('{"type":"from.the.future","x":1}') is None


def test_decoding_reverses_encoding() -> None:
    error = ServerError(code="c", message="m", fatal=True, retryable=False, session_id="s")
    data = encode(error)
    assert "sentence_index" not in msgspec.json.decode(data)
    assert decode_server_message(data) == error
