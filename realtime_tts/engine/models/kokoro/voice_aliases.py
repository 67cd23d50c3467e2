"""Voices for the published names that clients send: of OpenAI's API, and of Qwen3-TTS (clients of vLLM-Omni)."""

VOICE_ALIASES = {
    # The voices of the same name, and else of the same gender and accent: the best rated ones first (VOICES.md of
    # hexgrad/Kokoro-82M).
    "alloy": "af_alloy",
    "ash": "am_puck",
    "ballad": "bm_george",
    "cedar": "am_michael",
    "coral": "af_bella",
    "echo": "am_echo",
    "fable": "bm_fable",
    "marin": "af_heart",
    "nova": "af_nova",
    "onyx": "am_onyx",
    "sage": "af_sarah",
    "shimmer": "af_sky",
    "verse": "am_fenrir",
    # By the descriptions of the speakers: "seasoned male voice", "warm, gentle young female voice".
    "vivian": "af_bella",
    "serena": "af_heart",
    "uncle_fu": "am_onyx",
    "dylan": "am_puck",
    "eric": "am_eric",
    "ryan": "am_michael",
    "aiden": "am_liam",
    "ono_anna": "af_nova",
    "sohee": "af_sarah",
}
