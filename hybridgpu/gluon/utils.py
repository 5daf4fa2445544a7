# SPDX-License-Identifier: Apache-2.0
"""Splitting batches over devices, clipping gradients, and files (``gluon.utils``)."""

from __future__ import annotations

import hashlib
import os
import urllib.error
import urllib.request
import uuid
import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import ndarray
from ..context import Context
from ..core.source_location import located_hint
from ..hints.arguments import telling
from ..hints.gluon import UTILITIES, missing
from ..ndarray import NDArray
from ..util import is_np_array, is_np_shape
from .block import HookHandle

__all__ = ["HookHandle", "check_sha1", "clip_global_norm", "download", "replace_file", "shape_is_known", "split_and_load", "split_data"]  # fmt: skip


def shape_is_known(shape: Sequence[int] | None) -> bool:
    """True if a shape leaves no extent open: 0 is one that does, -1 under NumPy shape semantics, where () is a scalar's."""
    if shape is None:
        return False
    unknown = -1 if is_np_shape() else 0
    for d in shape:
        if d == unknown:
            return False
        assert d > unknown, f"shape dimension size cannot be less than {unknown}, while received {d}"
    return bool(shape) or is_np_shape()


def split_data(data: NDArray, num_slice: int, batch_axis: int = 0, even_split: bool = True) -> list[NDArray]:
    """``num_slice`` slices along ``batch_axis``; the first ones are longer where it does not come out even.

    Raises:
        ValueError: it does not, and ``even_split`` is True.
    """
    size = data.shape[batch_axis]
    if even_split and size % num_slice != 0:
        raise ValueError(
            f"data with shape {data.shape} cannot be evenly split into {num_slice} slices along axis {batch_axis}. "
            f"Use a batch size that's multiple of {num_slice} or set even_split=False to allow uneven partitioning of data."
        )
    each, extra = divmod(size, num_slice)
    ends = np.cumsum([each + (k < extra) for k in range(num_slice)]).tolist()
    starts = [0, *ends[:-1]]
    if is_np_array():
        from ..numpy import split

        return list(split(data, ends[:-1], axis=batch_axis))  # type: ignore[arg-type]  # an array of np
    if batch_axis == 0:
        return [data[a:b] for a, b in zip(starts, ends, strict=True)]
    return [data.slice_axis(axis=batch_axis, begin=a, end=b) for a, b in zip(starts, ends, strict=True)]


def split_and_load(
    data: Any, ctx_list: Sequence[Context], batch_axis: int = 0, even_split: bool = True
) -> list[NDArray]:
    """A slice of ``data`` on each context; what is no array yet becomes one, of float32 outside of np mode.

    Raises:
        ValueError: the contexts do not divide the batch, and ``even_split`` is True.
    """
    if isinstance(ctx_list, Context):
        raise TypeError(f"object of type 'Context' has no len()\n{located_hint('Write [ctx].')}")
    if not isinstance(data, NDArray):
        if is_np_array():
            from ..numpy import array

            data = array(data, ctx=ctx_list[0])
        else:
            data = ndarray.array(data, ctx=ctx_list[0])
    if len(ctx_list) == 1:
        return [data.as_in_context(ctx_list[0])]
    slices = split_data(data, len(ctx_list), batch_axis, even_split)
    return [part.as_in_context(ctx) for part, ctx in zip(slices, ctx_list, strict=True)]


@telling
def clip_global_norm(arrays: Sequence[NDArray], max_norm: float, check_isfinite: bool = True) -> Any:
    """Scale arrays in place so that the norm of all of them together is at most ``max_norm``.

    Returns:
        The norm before: a float, or with ``check_isfinite=False`` an array of shape (1,), without waiting for it.

    Warns:
        UserWarning: the norm is no finite number (only with ``check_isfinite``).
    """
    assert len(arrays) > 0
    ctx = arrays[0].context
    squares = []
    flattened = [a.as_nd_ndarray().reshape((-1,)) for a in arrays]  # views: a scalar of np is one of them, too
    for flat in flattened:
        squares.append(ndarray.dot(flat, flat).as_in_context(ctx))
    norm = ndarray.sqrt(ndarray.add_n(*squares))
    if check_isfinite and not np.isfinite(norm.asscalar()):
        warnings.warn("nan or inf is detected. Clipping results will be undefined.", UserWarning, stacklevel=2)
    scale = ndarray.minimum(max_norm / (norm + 1e-8), 1.0)
    for flat in flattened:
        flat *= scale.as_in_context(flat.context)
    return norm.asscalar() if check_isfinite else norm


def check_sha1(filename: str, sha1_hash: str) -> bool:
    """True if the file's SHA-1 digest is ``sha1_hash`` (hexadecimal)."""
    with open(filename, "rb") as f:
        digest = hashlib.file_digest(f, "sha1") if hasattr(hashlib, "file_digest") else hashlib.sha1(f.read())
    return digest.hexdigest() == sha1_hash


#: where MXNet's files are
REPOSITORY = "https://apache-mxnet.s3-accelerate.dualstack.amazonaws.com/"


def _get_repo_url() -> str:
    """Where Gluon's files are fetched: $MXNET_GLUON_REPO, else MXNet's server; ends with a slash."""
    url = os.environ.get("MXNET_GLUON_REPO", REPOSITORY)
    return url if url.endswith("/") else f"{url}/"


def _get_repo_file_url(namespace: str, filename: str) -> str:
    """The address of one of Gluon's files."""
    return f"{_get_repo_url()}{namespace}/{filename}"


def _brief_print_list(lst: Any, limit: int = 7) -> str:
    """Names in quotes, apart by commas; of more than ``limit`` the first and the last."""
    names = [f"'{name}'" for name in lst]
    if len(names) > limit:
        return f"{_brief_print_list(lst[: limit // 2], limit)}, ..., {_brief_print_list(lst[-limit // 2 :], limit)}"
    return ", ".join(names)


def replace_file(src: str, dst: str) -> None:
    """Move a file over another one at once.

    Raises:
        OSError: it cannot be moved; ``src`` is removed.
    """
    try:
        os.replace(src, dst)
    except OSError as e:
        if os.path.exists(src):
            os.remove(src)
        raise OSError(f"Moving downloaded temp file - {src}, to {dst} failed. Please retry the download.") from e


def download(
    url: str,
    path: str | None = None,
    overwrite: bool = False,
    sha1_hash: str | None = None,
    retries: int = 5,
    verify_ssl: bool = True,
) -> str:
    """Fetch a file unless it is there already.

    Args:
        path: where to, a file or a folder; by default the current folder under the address's last part.
        sha1_hash: the file is fetched again if its digest is another one.
        retries: how often to try again.

    Returns:
        The file's name.

    Raises:
        RuntimeError: it cannot be fetched (no network, no such file); the cause is named.
        UserWarning: what came has another digest.
    """
    name = url.rsplit("/", maxsplit=1)[-1]
    if path is None:
        assert name, "Can't construct file-name from this URL. Please set the `path` option manually."
        target = name
    else:
        path = os.path.expanduser(path)
        target = os.path.join(path, name) if os.path.isdir(path) else path
    assert retries >= 0, f"Number of retries should be at least 0, currently it's {retries}"
    if not verify_ssl:
        warnings.warn(
            "Unverified HTTPS request is being made (verify_ssl=False). Adding certificate verification is strongly advised.",
            stacklevel=2,
        )
    if not overwrite and os.path.exists(target) and (not sha1_hash or check_sha1(target, sha1_hash)):
        return target
    os.makedirs(os.path.dirname(os.path.abspath(target)), exist_ok=True)
    part = f"{target}.{uuid.uuid4()}"
    for left in range(retries, -1, -1):
        try:
            print(f"Downloading {target} from {url}...")
            _fetch(url, part, verify_ssl)
            break
        except (OSError, urllib.error.URLError) as e:
            if os.path.exists(part):
                os.remove(part)
            if left == 0:
                raise RuntimeError(
                    f"Failed downloading url {url}: {e}\nPut the file at {os.path.abspath(target)} by hand."
                ) from e
            print(f"download failed due to {e!r}, retrying, {left} attempt{'s' if left > 1 else ''} left")
    if sha1_hash and not check_sha1(part, sha1_hash):
        os.remove(part)
        raise UserWarning(
            f"File {target} is downloaded but the content hash does not match. The repo may be outdated or download may be "
            'incomplete. If the "repo_url" is overridden, consider switching to the default repo.'
        )
    replace_file(part, target)
    return target


def _fetch(url: str, target: str, verify_ssl: bool) -> None:
    import shutil
    import ssl

    context = None if verify_ssl else ssl._create_unverified_context()  # what verify_ssl=False asks for
    with urllib.request.urlopen(url, timeout=30, context=context) as source, open(target, "wb") as f:
        shutil.copyfileobj(source, f)


if not TYPE_CHECKING:  # which would no longer find names that are not there
    __getattr__ = missing(__name__, UTILITIES)
