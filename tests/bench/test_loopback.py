"""Load goes to this machine alone, unless somebody says otherwise."""

import pytest

from bench.hosts import NotThisMachine, require_loopback


@pytest.mark.parametrize("url", ["http://127.0.0.1:8000", "ws://localhost:1/x", "http://[::1]:8000", "127.0.0.1:8000"])
def test_this_machine_is_allowed(url: str) -> None:
    require_loopback(url, allow_remote=False)


@pytest.mark.parametrize("url", ["http://example.com", "http://10.0.0.1:8000", "localhost.example.com", "http://", ""])
def test_others_only_when_asked_for(url: str) -> None:
    with pytest.raises(NotThisMachine, match="--allow-remote"):
        require_loopback(url, allow_remote=False)
    require_loopback(url, allow_remote=True)
