"""realtime_tts: a WebSocket-first realtime voice server.  Text is streamed in, speech is streamed out, without gaps."""

import os

__version__ = "0.1.0"

# Before a dependency is imported, which is when these are read.  onnxruntime 1.32 otherwise writes a device id and a
# database of events to the user's cache and sends them; its function `disable_telemetry_events` comes too late for both
# (Privacy.md in its package).  huggingface_hub otherwise describes this installation in the headers of its requests.
os.environ["ORT_DISABLE_TELEMETRY"] = "1"
os.environ["HF_HUB_DISABLE_TELEMETRY"] = "1"
