# SPDX-License-Identifier: Apache-2.0
"""``mx.contrib.tensorboard``: metrics into the files that TensorBoard shows."""

from __future__ import annotations

import importlib
from typing import Any

from ..core.source_location import located_hint

__all__ = ["LogMetricsCallback"]

#: packages with a SummaryWriter, the first that is installed is used
_WRITERS = ("mxboard", "tensorboardX", "torch.utils.tensorboard")


class LogMetricsCallback:
    """Writes each value of a metric, for ``batch_end_callback`` and ``eval_end_callback``; its step is the epoch.

    Args:
        logging_dir: the folder of the files.
        prefix: begins the names of the values, with a '-' behind it.

    Raises:
        ImportError: no package with a ``SummaryWriter`` is installed.
    """

    def __init__(self, logging_dir: str, prefix: str | None = None) -> None:
        self.prefix = prefix
        self.summary_writer: Any = _writer()(logging_dir)

    def __call__(self, param: Any) -> None:
        """Write the values of ``param.eval_metric``, if there is one."""
        if param.eval_metric is None:
            return
        for name, value in param.eval_metric.get_name_value():
            full = name if self.prefix is None else f"{self.prefix}-{name}"
            self.summary_writer.add_scalar(full, value, global_step=param.epoch)


def _writer() -> Any:
    for name in _WRITERS:
        try:
            return importlib.import_module(name).SummaryWriter
        except ImportError:
            continue
    text = "Install one of mxboard, tensorboardX, and tensorboard beside torch."
    raise ImportError(f"there is no SummaryWriter\n{located_hint(text)}")
