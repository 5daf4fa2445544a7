# SPDX-License-Identifier: Apache-2.0
"""Numbers for words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable
from typing import Any

__all__ = ["UNKNOWN", "Vocabulary"]

UNKNOWN = 0  #: the number of all unknown tokens


class Vocabulary:
    """Tokens and their numbers: 0 for unknown ones, then reserved ones, then those of a counter, most frequent first.

    Args:
        counter: how often each token occurs; equally frequent ones are in their own order.
        most_freq_count: so many of the counter's tokens at most.
        min_freq: leave out those that are less frequent.
        unknown_token: what stands for all others.
        reserved_tokens: more tokens that have numbers anyhow.

    Raises:
        AssertionError: ``min_freq`` below 1; reserved tokens that repeat, or hold the unknown one; no Counter.
    """

    _token_to_idx: dict[Any, int]
    _idx_to_token: list[Any]

    def __init__(
        self,
        counter: Counter[Any] | None = None,
        most_freq_count: int | None = None,
        min_freq: int = 1,
        unknown_token: Hashable = "<unk>",
        reserved_tokens: list[Any] | None = None,
    ) -> None:
        assert min_freq > 0, "`min_freq` must be set to a positive value."
        reserved = list(reserved_tokens or [])
        assert unknown_token not in reserved, "`reserved_token` cannot contain `unknown_token`."
        assert len(set(reserved)) == len(reserved), "`reserved_tokens` cannot contain duplicate reserved tokens."
        self._unknown_token = unknown_token
        self._reserved_tokens = None if reserved_tokens is None else reserved
        self._idx_to_token = [unknown_token, *reserved]
        if counter is not None:
            assert isinstance(counter, Counter), "`counter` must be an instance of collections.Counter."
            special = set(self._idx_to_token)
            frequent = sorted(sorted(counter), key=counter.__getitem__, reverse=True)
            tokens = [t for t in frequent if counter[t] >= min_freq and t not in special]
            self._idx_to_token += tokens[:most_freq_count]
        self._token_to_idx = {token: k for k, token in enumerate(self._idx_to_token)}

    def __len__(self) -> int:
        return len(self._idx_to_token)

    @property
    def token_to_idx(self) -> dict[Any, int]:
        """The number of each token."""
        return self._token_to_idx

    @property
    def idx_to_token(self) -> list[Any]:
        """The token of each number."""
        return self._idx_to_token

    @property
    def unknown_token(self) -> Any:
        """What stands for unknown tokens."""
        return self._unknown_token

    @property
    def reserved_tokens(self) -> list[Any] | None:
        """Tokens that have numbers anyhow."""
        return self._reserved_tokens

    def to_indices(self, tokens: Any) -> Any:
        """The number of a token, or numbers of a list of tokens."""
        if isinstance(tokens, list):
            return [self._token_to_idx.get(t, UNKNOWN) for t in tokens]
        return self._token_to_idx.get(tokens, UNKNOWN)

    def to_tokens(self, indices: Any) -> Any:
        """The token of a number, or tokens of a list of numbers.

        Raises:
            ValueError: there is no such number.
        """
        numbers = indices if isinstance(indices, list) else [indices]
        for k in numbers:
            if not isinstance(k, int) or k >= len(self):
                raise ValueError(f"Token index {k} in the provided `indices` is invalid.")
        tokens = [self._idx_to_token[k] for k in numbers]
        return tokens if isinstance(indices, list) else tokens[0]
