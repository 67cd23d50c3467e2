"""Decoder of the 12 Hz codec: layers, their state, and the decoding of streams."""
