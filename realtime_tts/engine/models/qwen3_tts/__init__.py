"""Qwen3-TTS, 12 Hz: a Talker that makes sixteen codes a frame, and the codec that makes them sound."""
