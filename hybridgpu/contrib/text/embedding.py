# SPDX-License-Identifier: Apache-2.0
"""Vectors for words, from files of text: a token and its numbers on each line. Nothing is downloaded."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from ... import ndarray as nd
from ... import registry
from ...base import MXNetError, data_dir
from ...core.source_location import user_frame
from ...hints.absent_member import AbsentMember
from ...ndarray import NDArray, array
from ...ndarray.mode import of_mode
from .vocab import UNKNOWN, Vocabulary

__all__ = ["CompositeEmbedding", "CustomEmbedding", "FastText", "GloVe", "create", "get_pretrained_file_names", "register"]  # fmt: skip


class _TokenEmbedding(Vocabulary):
    """Base of embeddings: a vocabulary with a vector for each token.

    Attributes:
        vec_len: length of a vector.
        idx_to_vec: (tokens, vec_len), the vectors by number.
    """

    _vec_len: int
    _idx_to_vec: NDArray

    def _load_embedding(
        self, path: str | os.PathLike[str], delimiter: str, init_unknown_vec: Callable[..., Any], encoding: str = "utf8"
    ) -> None:
        """Append the tokens of a file. The first of several vectors of a token counts.

        Raises:
            ValueError: no such file, or one without vectors.
            AssertionError: a line without numbers, or with another count of them.
        """
        path = os.path.expanduser(path)
        if not os.path.isfile(path):
            raise ValueError("`pretrained_file_path` must be a valid path to the pre-trained token embedding file.")
        vectors: list[list[float]] = []
        unknown: list[float] | None = None
        seen: set[str] = set()
        with open(path, encoding=encoding) as lines:
            for number, line in enumerate(lines, 1):
                token, *texts = line.rstrip().split(delimiter)
                where = f"At line {number} of the pre-trained token embedding file: "
                assert texts, f"{where}the data format of the pre-trained token embedding file {path} is unexpected."
                vector = [float(t) for t in texts]
                if token == self.unknown_token and unknown is None:
                    unknown = vector
                    seen.add(token)
                elif token in seen:
                    warnings.warn(
                        f"{where}the embedding vector for token {token} has been loaded and a duplicate embedding for "
                        "the same token is seen and skipped.",
                        stacklevel=user_frame(),
                    )
                elif len(vector) == 1:
                    warnings.warn(
                        f"{where}token {token} with 1-dimensional vector {vector} is likely a header and is skipped.",
                        stacklevel=user_frame(),
                    )
                else:
                    length = len(vectors[0]) if vectors else len(vector)
                    assert len(vector) == length, (
                        f"{where}the dimension of token {token} is {len(vector)} but the dimension of previous tokens "
                        f"is {length}. Dimensions of all the tokens must be the same."
                    )
                    vectors.append(vector)
                    seen.add(token)
                    self._token_to_idx[token] = len(self._idx_to_token)
                    self._idx_to_token.append(token)
        rows = [*vectors[:1], *([unknown] if unknown is not None else [])]
        if not rows:
            raise ValueError(
                f"The pre-trained token embedding file {path} has no vectors: each line must be a token and at least two "
                f"numbers, separated by {delimiter!r}."
            )
        self._vec_len = len(rows[0])
        first = unknown if unknown is not None else init_unknown_vec(shape=self._vec_len).asnumpy()
        # reserved tokens have no vectors in a file
        reserved = np.zeros((len(self) - 1 - len(vectors), self._vec_len), np.float32)
        self._idx_to_vec = array(np.vstack([[first], reserved, np.reshape(vectors, (-1, self._vec_len))]))

    def _hg_for_vocabulary(self, vocabulary: Vocabulary | None) -> None:
        """Keep the tokens of a vocabulary only, in its order."""
        if vocabulary is not None:
            assert isinstance(vocabulary, Vocabulary), (
                "The argument `vocabulary` must be an instance of mxnet.contrib.text.vocab.Vocabulary."
            )
            self._hg_combine([self], vocabulary)

    def _hg_combine(self, embeddings: list[_TokenEmbedding], vocabulary: Vocabulary) -> None:
        """Take a vocabulary's tokens with the vectors that others have for them, side by side."""
        tokens = vocabulary.idx_to_token[1:]
        parts = [np.vstack([e.idx_to_vec[:1].asnumpy(), e._hg_rows(e._hg_numbers(tokens, False))]) for e in embeddings]
        self._idx_to_vec = array(np.hstack(parts))
        self._vec_len = self._idx_to_vec.shape[1]
        self._token_to_idx, self._idx_to_token = dict(vocabulary.token_to_idx), list(vocabulary.idx_to_token)
        self._unknown_token, self._reserved_tokens = vocabulary.unknown_token, vocabulary.reserved_tokens

    @property
    def vec_len(self) -> int:
        """Length of a vector."""
        return self._vec_len

    @property
    def idx_to_vec(self) -> NDArray:
        """Vectors by number."""
        return of_mode(self._idx_to_vec)  # type: ignore[no-any-return]

    def _hg_numbers(self, tokens: list[Any], lower_case_backup: bool) -> list[int]:
        indices = self._token_to_idx
        return [
            indices[t] if t in indices else indices.get(t.lower() if lower_case_backup else t, UNKNOWN) for t in tokens
        ]

    def _hg_rows(self, numbers: list[int]) -> Any:
        return self._idx_to_vec.asnumpy()[np.asarray(numbers, np.int64)]

    def get_vecs_by_tokens(self, tokens: Any, lower_case_backup: bool = False) -> NDArray:
        """The vector of a token, (vec_len,), or vectors of a list of tokens, (n, vec_len).

        Args:
            lower_case_backup: look for unknown tokens in lower case.
        """
        several = tokens if isinstance(tokens, list) else [tokens]
        rows = nd.take(self._idx_to_vec, array(self._hg_numbers(several, lower_case_backup), dtype="int64"))
        vectors: NDArray = of_mode(rows if isinstance(tokens, list) else rows[0])
        return vectors

    def update_token_vectors(self, tokens: Any, new_vectors: NDArray) -> None:
        """Set the vectors of known tokens.

        Raises:
            AssertionError: ``new_vectors`` is no array of a vector for each token.
            ValueError: an unknown token; ``unknown_token`` itself may be given.
        """
        several = tokens if isinstance(tokens, list) else [tokens]
        allowed = (1, 2) if len(several) == 1 else (2,)
        assert isinstance(new_vectors, NDArray) and new_vectors.ndim in allowed, (
            "`new_vectors` must be a 2-D NDArray if `tokens` is a list of multiple strings, and a 1-D or 2-D NDArray if "
            "`tokens` is a singleton."
        )
        values = new_vectors.asnumpy()
        values = values[None] if values.ndim == 1 else values
        assert values.shape == (len(several), self.vec_len), (
            "The length of new_vectors must be equal to the number of tokens and the width of new_vectors must be equal "
            "to the dimension of embeddings of the glossary."
        )
        for token in several:
            if token not in self._token_to_idx:
                raise ValueError(
                    f"Token {token} is unknown. To update the embedding vector for an unknown token, please specify it "
                    f"explicitly as the `unknown_token` {self.unknown_token} in `tokens`. This is to avoid unintended "
                    "updates."
                )
        table = self._idx_to_vec.asnumpy().copy()
        table[self._hg_numbers(several, False)] = values
        self._idx_to_vec[:] = array(table)


_register = registry.get_register_func(_TokenEmbedding, "token embedding")
_create = registry.get_create_func(_TokenEmbedding, "token embedding")


def register(embedding_cls: type) -> type:
    """Make an embedding's class known to :func:`create` by its name."""
    registered: type = _register(embedding_cls)
    return registered


def create(embedding_name: str, **kwargs: Any) -> Any:
    """An embedding by the name of its class; upper case does not matter.

    Raises:
        AssertionError: an unknown name.
    """
    return _create(embedding_name, **kwargs)


def get_pretrained_file_names(embedding_name: str | None = None) -> Any:
    """Names of the files that are there for an embedding, or a dictionary of them for all embeddings.

    Raises:
        KeyError: an unknown embedding.
    """
    classes = {
        name: cls for name, cls in registry.get_registry(_TokenEmbedding).items() if issubclass(cls, _FromFolder)
    }
    if embedding_name is None:
        return {name: cls.file_names() for name, cls in classes.items()}
    if embedding_name not in classes:
        raise KeyError(
            f"Cannot find `embedding_name` {embedding_name}. Use `get_pretrained_file_names(embedding_name=None).keys()` "
            "to get all the valid embedding names."
        )
    return classes[embedding_name].file_names()


class _FromFolder(_TokenEmbedding):
    """Vectors of a file in ``embedding_root/<name of the class>``."""

    def __init__(
        self,
        pretrained_file_name: str,
        embedding_root: str | None,
        init_unknown_vec: Callable[..., Any],
        vocabulary: Vocabulary | None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        path = self._hg_folder(embedding_root) / pretrained_file_name
        if not path.is_file():
            raise MXNetError(
                f"{type(self).__name__}: there is no file {path}\n"
                "Nothing is downloaded: put the file there, or give the folder above its folder as embedding_root."
            )
        self._load_embedding(path, " ", init_unknown_vec)
        self._hg_for_vocabulary(vocabulary)

    @classmethod
    def _hg_folder(cls, root: str | None) -> Path:
        return (Path(root).expanduser() if root else Path(data_dir()) / "embeddings") / cls.__name__.lower()

    @classmethod
    def file_names(cls) -> list[str]:
        """Names of the files in the default folder."""
        folder = cls._hg_folder(None)
        return sorted(file.name for file in folder.iterdir() if file.is_file()) if folder.is_dir() else []


@register
class GloVe(_FromFolder):
    """GloVe's vectors (Pennington et al., 2014), from a file in ``<embedding_root>/glove``.

    Args:
        pretrained_file_name: as GloVe's authors name it.
        embedding_root: by default ``~/.mxnet/embeddings``.
        init_unknown_vec: ``init_unknown_vec(shape=n)`` makes the vector of unknown tokens, unless the file has one.
        vocabulary: keep only its tokens.

    Raises:
        MXNetError: the file is not there.
    """

    pretrained_archive_name_sha1 = AbsentMember("contrib.text.embedding.GloVe")
    pretrained_file_name_sha1 = AbsentMember("contrib.text.embedding.GloVe")

    def __init__(
        self,
        pretrained_file_name: str = "glove.840B.300d.txt",
        embedding_root: str | None = None,
        init_unknown_vec: Callable[..., Any] = nd.zeros,
        vocabulary: Vocabulary | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(pretrained_file_name, embedding_root, init_unknown_vec, vocabulary, **kwargs)


@register
class FastText(_FromFolder):
    """fastText's vectors (Bojanowski et al., 2017), from a file in ``<embedding_root>/fasttext``; see :class:`GloVe`."""

    pretrained_archive_name_sha1 = AbsentMember("contrib.text.embedding.FastText")
    pretrained_file_name_sha1 = AbsentMember("contrib.text.embedding.FastText")

    def __init__(
        self,
        pretrained_file_name: str = "wiki.simple.vec",
        embedding_root: str | None = None,
        init_unknown_vec: Callable[..., Any] = nd.zeros,
        vocabulary: Vocabulary | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(pretrained_file_name, embedding_root, init_unknown_vec, vocabulary, **kwargs)


class CustomEmbedding(_TokenEmbedding):
    """Vectors of any file.

    Args:
        pretrained_file_path: the file.
        elem_delim: what stands between a token and its numbers.
        encoding: of the file.
        init_unknown_vec, vocabulary: see :class:`GloVe`.

    Raises:
        ValueError: no such file.
        AssertionError: a line without numbers, or with another count of them.
    """

    def __init__(
        self,
        pretrained_file_path: str | os.PathLike[str],
        elem_delim: str = " ",
        encoding: str = "utf8",
        init_unknown_vec: Callable[..., Any] = nd.zeros,
        vocabulary: Vocabulary | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self._load_embedding(pretrained_file_path, elem_delim, init_unknown_vec, encoding)
        self._hg_for_vocabulary(vocabulary)


class CompositeEmbedding(_TokenEmbedding):
    """The tokens of a vocabulary with vectors from one embedding or, side by side, from several.

    Raises:
        AssertionError: another vocabulary or another embedding.
    """

    def __init__(self, vocabulary: Vocabulary, token_embeddings: Any) -> None:
        assert isinstance(vocabulary, Vocabulary), (
            "The argument `vocabulary` must be an instance of mxnet.contrib.text.vocab.Vocabulary."
        )
        embeddings = token_embeddings if isinstance(token_embeddings, list) else [token_embeddings]
        for embedding in embeddings:
            assert isinstance(embedding, _TokenEmbedding), (
                "The argument `token_embeddings` must be an instance or a list of instances of "
                "`mxnet.contrib.text.embedding.TextEmbedding` whose embedding vectors will be loaded or "
                "concatenated-then-loaded to map to the indexed tokens."
            )
        self._hg_combine(embeddings, vocabulary)
