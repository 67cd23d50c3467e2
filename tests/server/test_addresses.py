"""Loopback addresses are recognised; every other address may be reached from elsewhere."""

from realtime_tts.server.addresses import is_loopback


def test_only_loopback_addresses_are_loopback() -> None:
    for host in ("127.0.0.1", "::1", "[::1]", "localhost", "LOCALHOST", "127.8.9.1"):
        assert is_loopback(host), host
    for host in ("0.0.0.0", "::", "192.168.1.1", "example.com", "", "localhost.evil.example", "127.1"):
        assert not is_loopback(host), host
