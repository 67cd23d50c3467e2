"""A body above the limit, or in an unknown encoding, is refused before it is read."""

import pytest

from realtime_tts.errors import RequestTooBig, UnsupportedMediaType
from realtime_tts.server.middleware.body_size import body_size_middleware
from tests.server.middleware.requests import ask, passes


async def test_a_body_is_refused_by_its_announced_size() -> None:
    check = body_size_middleware(1000)
    with pytest.raises(RequestTooBig, match="1000 bytes"):
        await passes(check, ask("POST", "/", **{"Content-Length": "1001"}))
    assert await passes(check, ask("POST", "/", **{"Content-Length": "1000"}))
    assert await passes(check, ask("POST", "/", **{"Transfer-Encoding": "chunked"}))


async def test_a_body_in_an_unknown_encoding_is_refused() -> None:
    check = body_size_middleware(1000)
    for encoding in ("br", "zstd", "gzip, gzip", "nothing"):
        with pytest.raises(UnsupportedMediaType, match="identity, gzip, deflate"):
            await passes(check, ask("POST", "/", **{"Content-Encoding": encoding}))
    for encoding in ("gzip", "GZIP", "deflate", "identity"):
        assert await passes(check, ask("POST", "/", **{"Content-Encoding": encoding})), encoding
