"""Load tests go to this machine alone, unless the caller allows others."""

import pytest

from bench.loopback import RemoteServer, require_loopback


def test_this_machine_is_allowed() -> None:
    for url in ("http://127.0.0.1:8000", "ws://localhost:1/x", "http://[::1]:8000", "127.0.0.1:8000"):
        require_loopback(url, allow_remote=False)


def test_other_machines_need_permission() -> None:
    for url in ("http://example.com", "http://10.0.0.1:8000", "localhost.example.com", "http://", ""):
        with pytest.raises(RemoteServer, match="--allow-remote"):
            require_loopback(url, allow_remote=False)
        require_loopback(url, allow_remote=True)
