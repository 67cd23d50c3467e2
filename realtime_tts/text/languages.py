"""Table of languages, and the primary subtag of a language's name or BCP-47 tag."""

import re

AUTO = "Auto"
"""The value of `language` that leaves the choice to the voice or the model."""
UNDETERMINED = "und"
"""BCP-47's subtag for a language that is not known."""

NAME_OF_SUBTAG = {
    "zh": "chinese",
    "en": "english",
    "fr": "french",
    "de": "german",
    "it": "italian",
    "ja": "japanese",
    "ko": "korean",
    "pt": "portuguese",
    "ru": "russian",
    "es": "spanish",
}
"""The languages of Qwen3-TTS, by the names in its configuration.  Public clients send these names in place of tags."""
SUBTAG_OF_NAME = {name: subtag for subtag, name in NAME_OF_SUBTAG.items()}


def primary_language(language: str) -> str:
    """The primary subtag, in lower case: English, en-US and en_GB are all en.

    An unknown name or tag gives its part before the first "-" or "_".
    """
    lower = language.lower()
    return SUBTAG_OF_NAME.get(lower) or re.split("[-_]", lower, maxsplit=1)[0]
