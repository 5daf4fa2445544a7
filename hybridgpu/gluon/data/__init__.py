# SPDX-License-Identifier: Apache-2.0
"""``gluon.data``: datasets, samplers, loaders."""

from typing import TYPE_CHECKING

from ...hints.gluon import OF_DATA, missing
from . import vision
from .dataloader import DataLoader
from .dataset import ArrayDataset, Dataset, RecordFileDataset, SimpleDataset
from .sampler import BatchSampler, FilterSampler, RandomSampler, Sampler, SequentialSampler

__all__ = [
    "ArrayDataset",
    "BatchSampler",
    "DataLoader",
    "Dataset",
    "FilterSampler",
    "RandomSampler",
    "RecordFileDataset",
    "Sampler",
    "SequentialSampler",
    "SimpleDataset",
    "vision",
]

if not TYPE_CHECKING:  # which would no longer find names that are not there
    __getattr__ = missing(__name__, OF_DATA)
