"""Bodies of the HTTP API: as JSON, with the fields that apply."""

import json

from realtime_tts.frontends.openai.messages import VoiceEntry, json_response


def test_a_body_is_json_without_the_fields_that_do_not_apply() -> None:
    own = VoiceEntry(id="a", name="a", language="en-US", uploaded=False)
    response = json_response(own, status=201)
    assert (response.status, response.content_type) == (201, "application/json")
    assert isinstance(response.body, bytes)
    assert json.loads(response.body) == {"id": "a", "name": "a", "language": "en-US", "uploaded": False}
