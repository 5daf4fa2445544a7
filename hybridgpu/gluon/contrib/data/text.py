# SPDX-License-Identifier: Apache-2.0
"""Datasets of text for language models, read from files that are there; nothing is downloaded."""

from __future__ import annotations

import io
import os
import zipfile
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np

from ....base import MXNetError, data_dir
from ....contrib.text.utils import count_tokens_from_str
from ....contrib.text.vocab import Vocabulary
from ....ndarray import array
from ...data.dataset import Dataset

__all__ = ["WikiText2", "WikiText103"]

EOS = "<eos>"  #: ends each sentence


class _WikiText(Dataset):
    """Numbers of ``seq_len`` words, and those of the words one further on."""

    _hg_archive: str
    _hg_folder: str

    def __init__(self, root: str | None, segment: str, vocab: Vocabulary | None, seq_len: int) -> None:
        names = {"train": "wiki.train.tokens", "validation": "wiki.valid.tokens", "test": "wiki.test.tokens"}
        self._root = Path(root).expanduser() if root else Path(data_dir()) / "datasets" / self._hg_folder
        text = self._hg_text(names[segment])
        self._counter = count_tokens_from_str(text)
        self._vocab = Vocabulary(self._counter, reserved_tokens=[EOS]) if vocab is None else vocab
        lines = [line.split() for line in text.splitlines()]
        numbers = np.array(self._vocab.to_indices([w for line in lines if line for w in (*line, EOS)]), np.int32)
        count = max(len(numbers) - 1, 0) // seq_len
        self._data, self._label = (
            array(part[: count * seq_len].reshape(-1, seq_len), dtype=np.int32) for part in (numbers[:-1], numbers[1:])
        )

    def _hg_text(self, name: str) -> str:
        if (self._root / name).is_file():
            return (self._root / name).read_text(encoding="utf8")
        if (self._root / self._hg_archive).is_file():
            with zipfile.ZipFile(self._root / self._hg_archive) as archive:
                for member in archive.namelist():
                    if os.path.basename(member) == name:
                        with archive.open(member) as file:
                            return io.TextIOWrapper(file, encoding="utf8").read()
        raise MXNetError(
            f"{type(self).__name__}: neither {name} nor {self._hg_archive} is in {self._root}\n"
            "Nothing is downloaded: put one of them there, or give its folder as root."
        )

    @property
    def vocabulary(self) -> Vocabulary:
        """Words and their numbers."""
        return self._vocab

    @property
    def frequencies(self) -> Counter[str]:
        """How often each word occurs."""
        return self._counter

    def __getitem__(self, idx: int) -> Any:
        return self._data[idx], self._label[idx]

    def __len__(self) -> int:
        return len(self._label)


class WikiText2(_WikiText):
    """WikiText-2 (Merity et al., 2016): samples are two int32 arrays (seq_len,), words and the words that follow.

    Args:
        root: folder of ``wiki.train.tokens`` and so on, or of ``wikitext-2-v1.zip``; default
            ``~/.mxnet/datasets/wikitext-2``.
        segment: 'train', 'validation' or 'test'.
        vocab: numbers of words; by default those of this segment, most frequent first.
        seq_len: words a sample; sentences run on, each followed by ``<eos>``.

    Raises:
        MXNetError: the files are not there.
    """

    _hg_archive, _hg_folder = "wikitext-2-v1.zip", "wikitext-2"

    def __init__(
        self, root: str | None = None, segment: str = "train", vocab: Vocabulary | None = None, seq_len: int = 35
    ) -> None:
        super().__init__(root, segment, vocab, seq_len)


class WikiText103(WikiText2):
    """WikiText-103, in the same form; default root ``~/.mxnet/datasets/wikitext-103``; see :class:`WikiText2`."""

    _hg_archive, _hg_folder = "wikitext-103-v1.zip", "wikitext-103"
