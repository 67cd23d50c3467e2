"""Text to the ids that the Talker reads: byte-level BPE from vocab.json and merges.txt."""

from enum import StrEnum
from pathlib import Path

from tokenizers import Regex, Tokenizer, models, normalizers, pre_tokenizers

from realtime_tts.engine.models.qwen3_tts.config import ModelConfig, read_json
from realtime_tts.errors import ModelNotUsable


class Words(StrEnum):
    """How text is cut before the byte pairs are merged.

    QWEN is what the Qwen3 series was trained with (its maintainers, github.com/QwenLM/Qwen3-VL issue 1998).  The
    reference package (qwen-tts 0.1.1 on transformers 4.57.3) asks for `fix_mistral_regex=True`, and so cuts the text
    of a large-vocabulary checkpoint as MISTRAL does: "iPhone" in two, "/" with the line breaks after it.
    """

    QWEN = "qwen"
    MISTRAL = "mistral"


_PATTERNS = {
    Words.QWEN: (
        r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*"
        r"|\s*[\r\n]+|\s+(?!\S)|\s+"
    ),
    Words.MISTRAL: (
        r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+"
        r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*"
        r"|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
    ),
}


class TextTokenizer:
    """Ids of text, and of the turns that the model was trained on.

    A special token's name inside of a text is plain text here: nobody who sends text can close a turn.
    """

    def __init__(self, bpe: models.BPE, config: ModelConfig, words: Words = Words.QWEN) -> None:
        self._tokenizer = Tokenizer(bpe)
        self._tokenizer.normalizer = normalizers.NFC()
        split = pre_tokenizers.Split(Regex(_PATTERNS[words]), behavior="isolated")
        byte_level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
        self._tokenizer.pre_tokenizer = pre_tokenizers.Sequence([split, byte_level])
        self._config = config
        self._newline = self._one("\n")
        self.assistant = (config.im_start_token_id, self._one("assistant"), self._newline)
        """What comes before everything that is spoken."""
        self._user = (config.im_start_token_id, self._one("user"), self._newline)

    def text(self, text: str) -> tuple[int, ...]:
        """The ids of `text` alone.

        White space around it is dropped: a leading line break would merge with that of the turn, and no text that is
        cut here reads differently for it.
        """
        # Half of a surrogate pair cannot be encoded, and cannot be spoken.
        clean = text.strip().encode("utf-8", "ignore").decode("utf-8")
        return tuple(self._tokenizer.encode(clean, add_special_tokens=False).ids)

    def instruct(self, instruct: str) -> tuple[int, ...]:
        """The user's turn, which tells how to speak."""
        return (*self._user, *self.text(instruct), self._config.im_end_token_id, self._newline)

    def _one(self, word: str) -> int:
        """The id of what must be one token: the layout of the prompt counts on it."""
        ids = self._tokenizer.encode(word, add_special_tokens=False).ids
        if len(ids) != 1:
            raise ModelNotUsable(f"the vocabulary has no single token for {word!r}")
        return int(ids[0])


def load_tokenizer(directory: Path, config: ModelConfig, words: Words = Words.QWEN) -> TextTokenizer:
    """Reads `vocab.json` and `merges.txt`.  Raises ModelNotUsable."""
    vocab = read_json(directory / "vocab.json", dict[str, int])
    limit = config.talker_config.text_vocab_size
    if bad := [token for token, index in vocab.items() if not 0 <= index < limit]:
        raise ModelNotUsable(
            f"{directory / 'vocab.json'} has ids beyond the model's {limit}, such as that of {bad[0]!r}"
        )
    if missing := [char for char in pre_tokenizers.ByteLevel.alphabet() if char not in vocab]:
        raise ModelNotUsable(f"{directory / 'vocab.json'} lacks {len(missing)} of the 256 bytes")
    try:
        return TextTokenizer(models.BPE(vocab=vocab, merges=_merges(directory / "merges.txt")), config, words)
    except ModelNotUsable:
        raise
    except Exception as error:  # tokenizers raises nothing narrower for a merge out of the vocabulary
        raise ModelNotUsable(f"{directory}: vocab.json and merges.txt do not fit together: {error}") from error


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
