# SPDX-License-Identifier: Apache-2.0
"""Parameters and trainer states in files, now and then, and training that goes on from them."""

from __future__ import annotations

import math
import os
import re
from typing import Any

from ....metric import EvalMetric
from .events import BatchEnd, EpochEnd, TrainBegin
from .monitoring import comparison, warn_not_updated, worst

__all__ = ["CheckpointHandler"]


class CheckpointHandler(TrainBegin, BatchEnd, EpochEnd):
    """Write ``<prefix>-epoch<E>batch<B>.params`` and ``.states`` every so many epochs or batches.

    ``<prefix>-symbol.json``, the graph of a hybridized net, is written after the first batch.

    Args:
        model_dir: folder of the files, made where there is none.
        model_prefix: what their names begin with.
        monitor: the metric that decides what is best.
        verbose: 1 reports each file to the estimator's logger.
        save_best: write ``<prefix>-best`` whenever the metric has improved at such a time.
        mode: 'min', 'max', or 'auto', which is 'max' with a warning.
        epoch_period, batch_period: how often; None is never.
        max_checkpoints: how many of this training's checkpoints are kept; the oldest is removed.
        resume_from_checkpoint: begin with the last one in the folder and train what is left of the epochs or batches.

    Raises:
        ValueError: ``save_best`` without a metric.
    """

    def __init__(
        self,
        model_dir: str | os.PathLike[str],
        model_prefix: str = "model",
        monitor: EvalMetric | None = None,
        verbose: int = 0,
        save_best: bool = False,
        mode: str = "auto",
        epoch_period: int | None = 1,
        batch_period: int | None = None,
        max_checkpoints: int = 5,
        resume_from_checkpoint: bool = False,
    ) -> None:
        self.monitor, self.verbose, self.save_best = monitor, verbose, save_best
        os.makedirs(model_dir, exist_ok=True)
        self.model_dir, self.model_prefix = model_dir, model_prefix
        self.epoch_period, self.batch_period = epoch_period, batch_period
        self.current_batch = self.current_epoch = 0
        self.max_checkpoints, self.resume_from_checkpoint = max_checkpoints, resume_from_checkpoint
        self.saved_checkpoints: list[str] = []
        self.trained_epoch = self.trained_batch = -1
        if save_best:
            if not isinstance(monitor, EvalMetric):
                raise ValueError(
                    "To save best model only, please provide one of the metric objects "
                    "from estimator.train_metrics and estimator.val_metrics as monitor."
                )
            self.monitor_op = comparison(mode, monitor, "ModelCheckpoint")
            self.best = worst(self.monitor_op)

    def train_begin(self, estimator: Any, *args: Any, **kwargs: Any) -> None:
        """Begin anew, or where the last checkpoint ended, with fewer epochs or batches.

        Raises:
            AssertionError: to resume by epochs, ``epoch_period`` must be given and ``batch_period`` None, by batches
                the other way round; or a checkpoint without its file of states.
            ValueError: nothing is left to train, or a file whose name gives no epoch and batch.
        """
        self.current_epoch = self.current_batch = 0
        if self.save_best:
            self.best = worst(self.monitor_op)
        if self.resume_from_checkpoint:
            by_batch, by_epoch = (self.batch_period, self.epoch_period), (self.epoch_period, self.batch_period)
            for limit, (this, other) in ((estimator.max_batch, by_batch), (estimator.max_epoch, by_epoch)):
                assert not limit or (this and not other), (
                    "To use resume from checkpoint, you must only specify the same type of period you used for "
                    "training. For example, if you are training based on number of epochs, you must save only based "
                    "on epochs, and set batch_period to None."
                )
            self._hg_resume(estimator)

    def batch_end(self, estimator: Any, *args: Any, **kwargs: Any) -> None:
        if self.current_batch == 0:
            self._save_symbol(estimator)
        if self.batch_period and (self.current_batch + 1) % self.batch_period == 0:
            self._hg_save(estimator)
        self.current_batch += 1

    def epoch_end(self, estimator: Any, *args: Any, **kwargs: Any) -> None:
        if self.epoch_period and (self.current_epoch + 1) % self.epoch_period == 0:
            self._hg_save(estimator)
        self.current_epoch += 1

    # -- writing

    def _hg_path(self, name: str) -> str:
        return os.path.join(self.model_dir, name)

    def _save_symbol(self, estimator: Any) -> None:
        file = self._hg_path(f"{self.model_prefix}-symbol.json")
        graph = getattr(estimator.net, "_cached_graph", None)
        if graph:
            graph[1].save(file)
        else:
            estimator.logger.info(
                "Model architecture(symbol file) is not saved, please use HybridBlock to construct your model, and call "
                "net.hybridize() before passing to Estimator in order to save model architecture as %s.",
                file,
            )

    def _hg_save(self, estimator: Any) -> None:
        epoch, batch = self.current_epoch, self.current_batch
        if self.resume_from_checkpoint:
            epoch += self.trained_epoch + 1
            # after an epoch, the number of batches is already that of the next one
            batch += self.trained_batch + (0 if estimator.max_epoch else 1)
        prefix = f"{self.model_prefix}-epoch{epoch}batch{batch}"
        self._hg_write(estimator, prefix)
        self.saved_checkpoints.append(prefix)
        if len(self.saved_checkpoints) > self.max_checkpoints:
            oldest = self.saved_checkpoints.pop(0)
            for file in (self._hg_path(f"{oldest}.params"), self._hg_path(f"{oldest}.states")):
                if os.path.exists(file):
                    os.remove(file)
        if self.verbose > 0:
            estimator.logger.info(
                "[Epoch %d] CheckpointHandler: trained total %d batches, saving model at %s with prefix: %s",
                self.current_epoch,
                self.current_batch + 1,
                self.model_dir,
                prefix,
            )
        if self.save_best:
            self._hg_save_best(estimator)

    def _hg_save_best(self, estimator: Any) -> None:
        assert self.monitor is not None
        name, value = self.monitor.get()
        if math.isnan(value):
            warn_not_updated(name)
            return
        best, improved = self.best, self.monitor_op(value, self.best)
        if improved:
            self._hg_write(estimator, f"{self.model_prefix}-best")
            self.best = value
        if self.verbose > 0 and improved:
            estimator.logger.info(
                "[Epoch %d] CheckpointHandler: %s improved from %0.5f to %0.5f, updating best model at %s with prefix: %s",
                self.current_epoch,
                name,
                best,
                value,
                self.model_dir,
                f"{self.model_prefix}-best",
            )
        elif self.verbose > 0:
            estimator.logger.info(
                "[Epoch %d] CheckpointHandler: %s did not improve from %0.5f, skipping updating best model",
                self.current_epoch,
                name,
                best,
            )

    def _hg_write(self, estimator: Any, prefix: str) -> None:
        # the file that _hg_last looks for comes last: a checkpoint that was cut off between the two is none
        estimator.trainer.save_states(self._hg_path(f"{prefix}.states"))
        estimator.net.save_parameters(self._hg_path(f"{prefix}.params"))

    # -- reading

    def _hg_last(self) -> tuple[int, int]:
        """Epoch and batch of the last checkpoint in the folder, (-1, -1) if there is none."""
        positions = [(-1, -1)]
        for name in os.listdir(self.model_dir):
            if name.startswith(f"{self.model_prefix}-epoch") and ".params" in name:
                numbers = re.fullmatch(r"-epoch(\d+)batch(\d+)\.params", name[len(self.model_prefix) :])
                if numbers is None:
                    raise ValueError(
                        "Error parsing checkpoint file, please check your checkpoints have the format: "
                        "{model_name}-epoch{epoch_number}batch{batch_number}.params, "
                        f"there should also be a .states file for each .params file\nThis one has not: {name}"
                    )
                positions.append((int(numbers[1]), int(numbers[2])))
        return max(positions)

    def _hg_resume(self, estimator: Any) -> None:
        self.trained_epoch, self.trained_batch = self._hg_last()
        if self.trained_epoch == -1:
            count = f"{estimator.max_batch} batches" if estimator.max_batch else f"{estimator.max_epoch} epochs"
            estimator.logger.info("CheckpointHandler: No checkpoint found, training from scratch for %s", count)
            return
        left = []
        for kind, trained in (("epoch", self.trained_epoch), ("batch", self.trained_batch)):
            limit = getattr(estimator, f"max_{kind}")
            if not limit:
                continue
            if trained >= limit - 1:
                raise ValueError(
                    f"Found checkpoint with maximum number of {kind} {limit} reached, please specify "
                    "resume_from_checkpoint=False (default value) if you wan to train from scratch."
                )
            setattr(estimator, f"max_{kind}", limit - trained - 1)
            left.append(f"{limit - trained - 1} {'epochs' if kind == 'epoch' else 'batches'} ")
        prefix = self._hg_path(f"{self.model_prefix}-epoch{self.trained_epoch}batch{self.trained_batch}")
        for file in (f"{prefix}.params", f"{prefix}.states"):
            assert os.path.exists(file), f"Failed to load checkpoint, {file} does not exist"
        estimator.net.load_parameters(f"{prefix}.params", ctx=estimator.context)
        estimator.trainer.load_states(f"{prefix}.states")
        estimator.logger.warning(
            "CheckpointHandler: Checkpoint resumed from epoch %d batch %d, continue to train for %s",
            self.trained_epoch,
            self.trained_batch,
            "".join(left),
        )
