"""Text tokenizer of the Talker: ids of text, and of the chat turns that the model was trained on."""

from pathlib import Path

from realtime_tts.engine.models.qwen3.byte_pairs import BytePairs, load_byte_pairs
from realtime_tts.engine.models.qwen3_tts.config import ModelConfig


class TextTokenizer:
    """Ids of text, and of the chat turns that the model was trained on."""

    def __init__(self, byte_pairs: BytePairs, config: ModelConfig) -> None:
        self._byte_pairs = byte_pairs
        self._config = config
        self._newline = byte_pairs.single_token("\n")
        self.assistant = (config.im_start_token_id, byte_pairs.single_token("assistant"), self._newline)
        """The start of the assistant's turn, which precedes all speech."""
        self._user = (config.im_start_token_id, byte_pairs.single_token("user"), self._newline)

    def text(self, text: str) -> tuple[int, ...]:
        """The ids of `text` alone.

        White space around it is removed: a leading line break would merge with that of the turn, and the speech is the
        same without it.
        """
        return self._byte_pairs.encode(text.strip())

    def instruct(self, instruct: str) -> tuple[int, ...]:
        """The ids of the user's turn, which is an instruction for the voice."""
        return (*self._user, *self.text(instruct), self._config.im_end_token_id, self._newline)


def load_tokenizer(directory: Path, config: ModelConfig) -> TextTokenizer:
    """Reads `vocab.json` and `merges.txt`.  Raises ModelNotUsable."""
    return TextTokenizer(load_byte_pairs(directory, config.talker_config.text_vocab_size), config)
