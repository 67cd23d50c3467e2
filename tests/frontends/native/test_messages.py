"""Server messages as a client reads them."""

import msgspec

from realtime_tts.frontends.native.messages import ServerError, decode_server_message, encode


def test_a_client_skips_messages_of_unknown_types() -> None:
    assert decode_server_message('{"type":"from.the.future","x":1}') is None


def test_a_server_message_is_decoded_as_it_was_encoded() -> None:
    error = ServerError(code="c", message="m", fatal=True, retryable=False, session_id="s")
    data = encode(error)
    assert "sentence_index" not in msgspec.json.decode(data)
    assert decode_server_message(data) == error
