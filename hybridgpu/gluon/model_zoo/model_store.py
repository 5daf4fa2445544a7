# SPDX-License-Identifier: Apache-2.0
"""Files of trained parameters: how they are called and where they lie.

Nothing is fetched unless ``MXNET_GLUON_REPO`` names a server that has MXNet's files.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import zipfile
from typing import Any

from ...base import data_dir
from ...context import cpu
from ..utils import REPOSITORY, check_sha1, download, replace_file

apache_repo_url = REPOSITORY

__all__ = ["default_root", "get_model_file", "load_pretrained", "purge"]

_model_sha1 = {
    "alexnet": "44335d1f0046b328243b32a26a4fbd62d9057b45",
    "densenet121": "f27dbf2dbd5ce9a80b102d89c7483342cd33cb31",
    "densenet161": "b6c8a95717e3e761bd88d145f4d0a214aaa515dc",
    "densenet169": "2603f878403c6aa5a71a124c4a3307143d6820e9",
    "densenet201": "1cdbc116bc3a1b65832b18cf53e1cb8e7da017eb",
    "inceptionv3": "ed47ec45a937b656fcc94dabde85495bbef5ba1f",
    "mobilenet0.25": "9f83e440996887baf91a6aff1cccc1c903a64274",
    "mobilenet0.5": "8e9d539cc66aa5efa71c4b6af983b936ab8701c3",
    "mobilenet0.75": "529b2c7f4934e6cb851155b22c96c9ab0a7c4dc2",
    "mobilenet1.0": "6b8c5106c730e8750bcd82ceb75220a3351157cd",
    "mobilenetv2_0.25": "ae8f9392789b04822cbb1d98c27283fc5f8aa0a7",
    "mobilenetv2_0.5": "aabd26cd335379fcb72ae6c8fac45a70eab11785",
    "mobilenetv2_0.75": "e2be7b72a79fe4a750d1dd415afedf01c3ea818d",
    "mobilenetv2_1.0": "36da4ff1867abccd32b29592d79fc753bca5a215",
    "resnet101_v1": "d988c13d6159779e907140a638c56f229634cb02",
    "resnet101_v2": "18e93e4f48947e002547f50eabbcc9c83e516aa6",
    "resnet152_v1": "671c637a14387ab9e2654eafd0d493d86b1c8579",
    "resnet152_v2": "f2695542de38cf7e71ed58f02893d82bb409415e",
    "resnet18_v1": "a0666292f0a30ff61f857b0b66efc0228eb6a54b",
    "resnet18_v2": "a81db45fd7b7a2d12ab97cd88ef0a5ac48b8f657",
    "resnet34_v1": "48216ba99a8b1005d75c0f3a0c422301a0473233",
    "resnet34_v2": "9d6b80bbc35169de6b6edecffdd6047c56fdd322",
    "resnet50_v1": "0aee57f96768c0a2d5b23a6ec91eb08dfb0a45ce",
    "resnet50_v2": "ecdde35339c1aadbec4f547857078e734a76fb49",
    "squeezenet1.0": "264ba4970a0cc87a4f15c96e25246a1307caf523",
    "squeezenet1.1": "33ba0f93753c83d86e1eb397f38a667eaf2e9376",
    "vgg11": "dd221b160977f36a53f464cb54648d227c707a05",
    "vgg11_bn": "ee79a8098a91fbe05b7a973fed2017a6117723a8",
    "vgg13": "6bc5de58a05a5e2e7f493e2d75a580d83efde38c",
    "vgg13_bn": "7d97a06c3c7a1aecc88b6e7385c2b373a249e95e",
    "vgg16": "e660d4569ccb679ec68f1fd3cce07a387252a90a",
    "vgg16_bn": "7f01cf050d357127a73826045c245041b0df7363",
    "vgg19": "ad2f660d101905472b83590b59708b71ea22b2e5",
    "vgg19_bn": "f360b758e856f1074a85abd5fd873ed1d98297c3",
}


def default_root() -> str:
    """The folder of trained parameters: ``models`` in $MXNET_HOME or ~/.mxnet."""
    return os.path.join(data_dir(), "models")


def short_hash(name: str) -> str:
    """The part of a file's SHA-1 digest that its name has.

    Raises:
        ValueError: there are no trained parameters of this model.
    """
    if name not in _model_sha1:
        raise ValueError(f"Pretrained model for {name} is not available.")
    return _model_sha1[name][:8]


def get_model_file(name: str, root: str | None = None) -> str:
    """The file of a model's trained parameters, ``<root>/<name>-<hash>.params``.

    Raises:
        ValueError: there are none of this model.
        FileNotFoundError: the file is not there; the message says where to put it.
        OSError: it is there, but with other content.
    """
    file_name = f"{name}-{short_hash(name)}"
    folder = os.path.expanduser(root or default_root())
    path = os.path.join(folder, f"{file_name}.params")
    if os.path.exists(path):
        if check_sha1(path, _model_sha1[name]):
            return path
        raise OSError(
            f"{path} is not the file of MXNet's model zoo: its SHA-1 digest is not {_model_sha1[name]}\n"
            "Remove it, or load other parameters by net.load_parameters."
        )
    server = os.environ.get("MXNET_GLUON_REPO")
    if not server:
        raise FileNotFoundError(
            f"The trained parameters of {name} are not there: put MXNet's file {file_name}.params into {folder} "
            "(or set MXNET_GLUON_REPO to a server that has gluon/models)."
        )
    os.makedirs(folder, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        packed = download(f"{server.rstrip('/')}/gluon/models/{file_name}.zip", path=os.path.join(scratch, "model.zip"))
        with zipfile.ZipFile(packed) as z, z.open(f"{file_name}.params") as source:
            part = os.path.join(scratch, "model.params")
            with open(part, "wb") as target:
                shutil.copyfileobj(source, target)
        if not check_sha1(part, _model_sha1[name]):
            raise ValueError("Downloaded file has different hash. Please try again.")
        replace_file(part, path)
    return path


def load_pretrained(net: Any, name: str, ctx: Any, root: str | None) -> Any:
    """``net`` with the trained parameters of ``name`` on ``ctx`` (None: the host); see :func:`get_model_file`."""
    net.load_parameters(get_model_file(name, root), ctx=cpu() if ctx is None else ctx)
    return net


def purge(root: str | None = None) -> None:
    """Remove all files of trained parameters from ``root``."""
    folder = os.path.expanduser(root or default_root())
    for name in os.listdir(folder):
        if name.endswith(".params"):
            os.remove(os.path.join(folder, name))
