# SPDX-License-Identifier: Apache-2.0
"""Loggers that mark lines with a letter, the time, the process and the place."""

from __future__ import annotations

import logging
import warnings
from logging import CRITICAL, DEBUG, ERROR, INFO, NOTSET, WARNING

__all__ = ["CRITICAL", "DEBUG", "ERROR", "INFO", "NOTSET", "WARNING", "getLogger", "get_logger"]

_LETTERS = {CRITICAL: "C", ERROR: "E", WARNING: "W", INFO: "I", DEBUG: "D"}
_RED, _GREEN, _BLUE, _PLAIN = "\x1b[31m", "\x1b[32m", "\x1b[34m", "\x1b[0m"


class _Formatter(logging.Formatter):
    """Lines for a terminal, in the colour of their level."""

    def __init__(self) -> None:
        super().__init__(datefmt="%m%d %H:%M:%S")

    def format(self, record: logging.LogRecord) -> str:
        level = record.levelno
        color = _RED if level >= WARNING else _GREEN if level >= INFO else _BLUE
        place = "%(asctime)s %(process)d %(pathname)s:%(funcName)s:%(lineno)d"
        self._style._fmt = f"{color}{_LETTERS.get(level, 'U')}{place}]{_PLAIN} %(message)s"
        return super().format(record)


def getLogger(
    name: str | None = None, filename: str | None = None, filemode: str | None = None, level: int = WARNING
) -> logging.Logger:
    """The old name of :func:`get_logger`."""
    warnings.warn("getLogger is deprecated, Use get_logger instead.", DeprecationWarning, stacklevel=2)
    return get_logger(name, filename, filemode, level)


def get_logger(
    name: str | None = None, filename: str | None = None, filemode: str | None = None, level: int = WARNING
) -> logging.Logger:
    """The logger of a name, which writes to the terminal or to a file.

    Args:
        name: of the logger; None is the root, which stays as it is.
        filename: the file.
        filemode: how it is opened, 'a' if not said.
        level: what is less important is left out.
    """
    logger = logging.getLogger(name)
    if name is not None and not getattr(logger, "_init_done", False):
        logger._init_done = True  # type: ignore[attr-defined]
        handler: logging.Handler
        if filename:
            handler = logging.FileHandler(filename, filemode or "a")
        else:
            handler = logging.StreamHandler()
            handler.setFormatter(_Formatter())
        logger.addHandler(handler)
        logger.setLevel(level)
    return logger
