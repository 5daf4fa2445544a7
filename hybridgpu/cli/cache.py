# SPDX-License-Identifier: Apache-2.0
"""``hybridgpu cache info | clear``: the folder of compiled kernels."""

from __future__ import annotations

import warnings
from dataclasses import asdict

import click

from ..base import MXNetError
from ..cache.disk_cache import Store, default_store
from ..core.settings import lasting_cache, text_of
from .text import byte_text

__all__ = ["cache", "open_store", "store_lines"]


def open_store() -> Store:
    """The cache that this environment selects.

    Raises:
        click.ClickException: HYBRIDGPU_CACHE_SIZE is no number, or HYBRIDGPU_CACHE neither on nor off.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)  # elsewhere a wrong number is said and passed over
        try:
            return default_store()
        except RuntimeWarning:
            size = text_of("HYBRIDGPU_CACHE_SIZE")
            raise click.ClickException(f"HYBRIDGPU_CACHE_SIZE must be a number of bytes, not {size!r}") from None
        except MXNetError as e:
            raise click.ClickException(str(e)) from None


def store_lines(store: Store) -> list[tuple[str, str]]:
    """What ``info`` commands say of a cache, as (label, text)."""
    usage = store.usage()
    lines = [
        ("folder", str(usage.folder)),
        ("entries", str(usage.entries)),
        ("size", f"{byte_text(usage.nbytes)} of at most {byte_text(usage.limit)}"),
    ]
    if not lasting_cache():
        off = f"HYBRIDGPU_CACHE={text_of('HYBRIDGPU_CACHE')}"
        lines.append(("lasting", f"no: {off}, every process compiles into a folder of its own"))
    return lines


@click.group()
def cache() -> None:
    """Show or empty the folder of compiled kernels."""


@cache.command("info")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object (sizes in bytes).")
def cache_info(as_json: bool) -> None:
    """Print the folder, the number of entries, their size and its bound."""
    store = open_store()
    if as_json:
        import json

        click.echo(json.dumps({**asdict(store.usage()), "folder": str(store.folder)}))
        return
    for label, text in store_lines(store):
        click.echo(f"{label:<8} {text}")


@cache.command("clear")
@click.option("--yes", is_flag=True, help="Do not ask.")
def cache_clear(yes: bool) -> None:
    """Delete every compiled kernel; programs that need one compile it again."""
    store = open_store()
    usage = store.usage()
    if usage.entries == 0:
        click.echo(f"{usage.folder} holds nothing")
        return
    if not yes:
        click.confirm(f"Delete {usage.entries} entries ({byte_text(usage.nbytes)}) of {usage.folder}?", abort=True)
    deleted = store.clear()
    left = store.usage().entries
    if left:
        raise click.ClickException(f"{left} of {deleted} entries of {usage.folder} could not be deleted")
    click.echo(f"deleted {deleted} entries ({byte_text(usage.nbytes)})")
