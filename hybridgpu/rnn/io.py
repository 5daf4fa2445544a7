# SPDX-License-Identifier: Apache-2.0
"""Sentences as numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

__all__ = ["encode_sentences"]


def encode_sentences(
    sentences: Sequence[Sequence[Any]],
    vocab: dict[Any, int] | None = None,
    invalid_label: int = -1,
    invalid_key: Any = "\n",
    start_label: int = 0,
    unknown_token: Any = None,
) -> tuple[list[list[int]], dict[Any, int]]:
    """Numbers for the tokens of sentences, and the vocabulary.

    Args:
        vocab: known tokens; by default all are new and get numbers from ``start_label``.
        invalid_label, invalid_key: the token for padding and its number.
        unknown_token: stands for every token that is not in ``vocab``.

    Raises:
        AssertionError: a token that is not in ``vocab`` while there is no unknown token.
    """
    growing = vocab is None
    vocabulary: dict[Any, int] = {invalid_key: invalid_label} if vocab is None else vocab
    following = start_label
    result = []
    for sentence in sentences:
        numbers = []
        for token in sentence:
            if token not in vocabulary:
                assert growing or unknown_token, f"Unknown token {token}"
                if unknown_token:
                    token = unknown_token
                if token not in vocabulary:
                    if following == invalid_label:
                        following += 1
                    vocabulary[token] = following
                    following += 1
            numbers.append(vocabulary[token])
        result.append(numbers)
    return result, vocabulary
