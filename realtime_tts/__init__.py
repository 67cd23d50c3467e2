"""realtime_tts: a WebSocket-first realtime voice server.  Text is streamed in, speech is streamed out, without gaps."""

__version__ = "0.1.0"
