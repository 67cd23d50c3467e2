"""Text tokenizer of the Talker: byte-level BPE from vocab.json and merges.txt."""

from pathlib import Path

from tokenizers import Regex, Tokenizer, models, normalizers, pre_tokenizers

from realtime_tts.engine.models.qwen3.config import read_json
from realtime_tts.engine.models.qwen3_tts.config import ModelConfig
from realtime_tts.errors import ModelNotUsable

_WORDS = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)
"""The split into words before the byte pairs are merged, as in the training of the Qwen3 series (its maintainers,
github.com/QwenLM/Qwen3-VL issue 1998).

The reference package differs: qwen-tts 0.1.1 on transformers 4.57.3 sets `fix_mistral_regex=True`, and so splits the
text for a large vocabulary as Mistral does: "iPhone" into two words, and "/" together with the line breaks after it.
"""


class TextTokenizer:
    """Ids of text, and of the chat turns that the model was trained on.

    The name of a special token within a text is plain text, so that a text cannot end its turn.
    """

    def __init__(self, bpe: models.BPE, config: ModelConfig) -> None:
        self._tokenizer = Tokenizer(bpe)
        self._tokenizer.normalizer = normalizers.NFC()
        split = pre_tokenizers.Split(Regex(_WORDS), behavior="isolated")
        byte_level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
        self._tokenizer.pre_tokenizer = pre_tokenizers.Sequence([split, byte_level])
        self._config = config
        self._newline = self._single_token("\n")
        self.assistant = (config.im_start_token_id, self._single_token("assistant"), self._newline)
        """The start of the assistant's turn, which precedes all speech."""
        self._user = (config.im_start_token_id, self._single_token("user"), self._newline)

    def text(self, text: str) -> tuple[int, ...]:
        """The ids of `text` alone.

        White space around it is removed: a leading line break would merge with that of the turn, and the speech is the
        same without it.
        """
        # Unpaired surrogates cannot be encoded.
        clean = text.strip().encode("utf-8", "ignore").decode("utf-8")
        return tuple(self._tokenizer.encode(clean, add_special_tokens=False).ids)

    def instruct(self, instruct: str) -> tuple[int, ...]:
        """The ids of the user's turn, which is an instruction for the voice."""
        return (*self._user, *self.text(instruct), self._config.im_end_token_id, self._newline)

    def _single_token(self, word: str) -> int:
        """The id of a word that must be one token, as the layout of the prompt requires."""
        ids = self._tokenizer.encode(word, add_special_tokens=False).ids
        if len(ids) != 1:
            raise ModelNotUsable(f"the vocabulary has no single token for {word!r}")
        return int(ids[0])


def load_tokenizer(directory: Path, config: ModelConfig) -> TextTokenizer:
    """Reads `vocab.json` and `merges.txt`.  Raises ModelNotUsable."""
    vocab = read_json(directory / "vocab.json", dict[str, int])
    limit = config.talker_config.text_vocab_size
    if bad := [token for token, index in vocab.items() if not 0 <= index < limit]:
        raise ModelNotUsable(
            f"{directory / 'vocab.json'} has ids outside the model's {limit}, such as that of {bad[0]!r}"
        )
    if missing := [char for char in pre_tokenizers.ByteLevel.alphabet() if char not in vocab]:
        raise ModelNotUsable(f"{directory / 'vocab.json'} lacks {len(missing)} of the 256 bytes")
    try:
        return TextTokenizer(models.BPE(vocab=vocab, merges=_merges(directory / "merges.txt")), config)
    except ModelNotUsable:
        raise
    except Exception as error:  # tokenizers raises nothing narrower for a merge of unknown tokens
        raise ModelNotUsable(f"{directory}: vocab.json and merges.txt do not match: {error}") from error


def _merges(path: Path) -> list[tuple[str, str]]:
    try:
        lines = path.read_text("utf-8").split("\n")
    except OSError as error:
        raise ModelNotUsable(f"{path} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ModelNotUsable(f"{path} is not UTF-8: {error}") from error
    merges = []
    for number, line in enumerate(lines, 1):
        if not line.strip() or (number == 1 and line.startswith("#version")):
            continue
        pair = line.rstrip("\r").split(" ")
        if len(pair) != 2:
            raise ModelNotUsable(f"{path}, line {number}: not two tokens")
        merges.append((pair[0], pair[1]))
    return merges
