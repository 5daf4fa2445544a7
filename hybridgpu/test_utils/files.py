# SPDX-License-Identifier: Apache-2.0
"""Files that tests fetch."""

from __future__ import annotations

import os

from ..gluon import utils

__all__ = ["download"]


def download(
    url: str, fname: str | None = None, dirname: str | None = None, overwrite: bool = False, retries: int = 5
) -> str:
    """Fetch a file unless it is there; see :func:`hybridgpu.gluon.utils.download`.

    Args:
        fname: its name here, by default the last part of the address.
        dirname: a folder for it, made if it is missing.

    Returns:
        The file's name with its folder.

    Raises:
        RuntimeError: it cannot be fetched.
    """
    path = os.path.join(dirname or "", fname or url.rsplit("/", maxsplit=1)[-1])
    return utils.download(url, path, overwrite, retries=retries)
