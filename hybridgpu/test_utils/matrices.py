# SPDX-License-Identifier: Apache-2.0
"""Random matrices with known properties, as NumPy arrays; unit matrices."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..ndarray import NDArray, array, eye

__all__ = [
    "get_identity_mat",
    "get_identity_mat_batch",
    "new_matrix_with_real_eigvals_2d",
    "new_matrix_with_real_eigvals_nd",
    "new_orthonormal_matrix_2d",
    "new_sym_matrix_with_real_eigvals_2d",
    "new_sym_matrix_with_real_eigvals_nd",
]

_CONDITION = 3  #: largest condition number of a matrix of eigenvectors


def new_matrix_with_real_eigvals_2d(n: int) -> Any:
    """A matrix with n real eigenvalues between -10 and 10, whose eigenvectors are well conditioned."""
    while True:
        v = np.random.uniform(-1.0, 1.0, (n, 1))
        v /= np.linalg.norm(v)
        q = (np.eye(n) - 2 * v @ v.T) @ np.diag(np.random.uniform(-1.0, 1.0, n))  # a reflection, and a scaling
        if np.linalg.cond(q, 2) < _CONDITION:
            break
    return np.linalg.inv(q) @ np.diag(np.random.uniform(-10.0, 10.0, n)) @ q


def new_orthonormal_matrix_2d(n: int) -> Any:
    """A matrix whose columns are orthonormal."""
    x = np.random.randn(n, n)
    return np.linalg.qr(x.T @ x)[0]


def new_sym_matrix_with_real_eigvals_2d(n: int) -> Any:
    """A symmetric matrix with eigenvalues between -10 and 10."""
    q = new_orthonormal_matrix_2d(n)
    return q.T @ np.diag(np.random.uniform(-10.0, 10.0, n)) @ q


def _stacked(make: Callable[[int], Any], shape: Sequence[int]) -> Any:
    return np.array([make(shape[-1]) for _ in range(math.prod(shape[:-2]))]).reshape(shape)


def new_matrix_with_real_eigvals_nd(shape: Sequence[int]) -> Any:
    """Matrices as of :func:`new_matrix_with_real_eigvals_2d` in the last two axes."""
    return _stacked(new_matrix_with_real_eigvals_2d, shape)


def new_sym_matrix_with_real_eigvals_nd(shape: Sequence[int]) -> Any:
    """Matrices as of :func:`new_sym_matrix_with_real_eigvals_2d` in the last two axes."""
    return _stacked(new_sym_matrix_with_real_eigvals_2d, shape)


def get_identity_mat(size: int) -> NDArray:
    """The unit matrix."""
    return eye(size)


def get_identity_mat_batch(size: int) -> NDArray:
    """Two unit matrices."""
    one = get_identity_mat(size).asnumpy()
    return array([one, one])
