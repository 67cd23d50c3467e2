"""Byte-level BPE of the Qwen3 series, from vocab.json and merges.txt: text to token ids, and back."""

from pathlib import Path

from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers

from realtime_tts.engine.models.qwen3.config import read_json
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


class BytePairs:
    """Ids of text.  The name of a special token within a text is plain text, so that a text cannot end its turn."""

    def __init__(self, bpe: models.BPE) -> None:
        self._tokenizer = Tokenizer(bpe)
        self._tokenizer.normalizer = normalizers.NFC()
        split = pre_tokenizers.Split(Regex(_WORDS), behavior="isolated")
        byte_level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
        self._tokenizer.pre_tokenizer = pre_tokenizers.Sequence([split, byte_level])
        self._tokenizer.decoder = decoders.ByteLevel()

    def encode(self, text: str) -> tuple[int, ...]:
        # Unpaired surrogates cannot be encoded.
        clean = text.encode("utf-8", "ignore").decode("utf-8")
        return tuple(self._tokenizer.encode(clean, add_special_tokens=False).ids)

    def single_token(self, word: str) -> int:
        """The id of a word that must be one token, as the layout of the prompt requires.  Raises ModelNotUsable."""
        ids = self.encode(word)
        if len(ids) != 1:
            raise ModelNotUsable(f"the vocabulary has no single token for {word!r}")
        return ids[0]

    def decoder(self) -> "StreamDecoder":
        return StreamDecoder(self._tokenizer)


class StreamDecoder:
    """The text of one sequence of ids, whole characters at a time.  Ids outside the vocabulary have no text."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._stream = decoders.DecodeStream(skip_special_tokens=False)
        self._open: list[int] = []
        """The ids since the last whole character."""

    def push(self, token: int) -> str:
        """The text that is complete with this id, which may be none."""
        self._open.append(token)
        text = self._stream.step(self._tokenizer, token)
        if not text:
            return ""
        self._open.clear()
        return str(text)

    def flush(self) -> str:
        """The rest, where the ids end within a character."""
        rest = str(self._tokenizer.decode(self._open, skip_special_tokens=False))
        self._open.clear()
        return rest


def load_byte_pairs(directory: Path, vocab_size: int) -> BytePairs:
    """Reads `vocab.json` and `merges.txt`, for a model with `vocab_size` ids.  Raises ModelNotUsable."""
    vocab = read_json(directory / "vocab.json", dict[str, int])
    if bad := [token for token, index in vocab.items() if not 0 <= index < vocab_size]:
        raise ModelNotUsable(
            f"{directory / 'vocab.json'} has ids outside the model's {vocab_size}, such as that of {bad[0]!r}"
        )
    if missing := [char for char in pre_tokenizers.ByteLevel.alphabet() if char not in vocab]:
        raise ModelNotUsable(f"{directory / 'vocab.json'} lacks {len(missing)} of the 256 bytes")
    try:
        return BytePairs(models.BPE(vocab=vocab, merges=_merges(directory / "merges.txt")))
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
