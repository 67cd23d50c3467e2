"""realtime_tts: a WebSocket-first realtime voice server.  Stream text in, hear speech at once, without a gap."""

__version__ = "0.1.0"
