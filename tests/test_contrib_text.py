# SPDX-License-Identifier: Apache-2.0
"""mx.contrib.text and gluon.contrib.data.text: counting, numbers and vectors of words, datasets of text."""

from __future__ import annotations

import zipfile
from collections import Counter

import numpy as np
import pytest

import hybridgpu as mx
from hybridgpu import gluon, nd
from hybridgpu.base import MXNetError
from hybridgpu.contrib import text
from hybridgpu.contrib.text.vocab import Vocabulary

COUNTER = Counter(["a", "b", "b", "c", "c", "c", "some_word$"])


@pytest.mark.parametrize(
    "source, kwargs, counts",
    [
        (" Life is great ! \n life is good . \n", {}, {"Life": 1, "is": 2, "great": 1, "!": 1, "life": 1, "good": 1, ".": 1}),
        (" Life is \n life is \n", {"to_lower": True}, {"life": 2, "is": 2}),
        ("*Life*is*\n*life*is*\n", {"token_delim": r"\*", "to_lower": True}, {"life": 2, "is": 2}),
        ("<td>Life<td><sd>life", {"token_delim": "<td>", "seq_delim": "<sd>"}, {"Life": 1, "life": 1}),
        ("", {}, {}),
        ("x x", {"counter_to_update": Counter(x=1, y=1)}, {"x": 3, "y": 1}),
    ],
)  # fmt: skip
def test_counting(source, kwargs, counts):
    found = text.utils.count_tokens_from_str(source, **kwargs)
    assert found == counts
    assert kwargs.get("counter_to_update", found) is found


@pytest.mark.parametrize(
    "kwargs, tokens",
    [
        ({}, ["<unk>", "c", "b", "a", "some_word$"]),
        ({"min_freq": 2}, ["<unk>", "c", "b"]),
        ({"min_freq": 100}, ["<unk>"]),
        ({"most_freq_count": 3}, ["<unk>", "c", "b", "a"]),
        ({"most_freq_count": 100}, ["<unk>", "c", "b", "a", "some_word$"]),
        ({"most_freq_count": 2, "reserved_tokens": ["b", "<pad>"]}, ["<unk>", "b", "<pad>", "c", "a"]),
        ({"unknown_token": "c"}, ["c", "b", "a", "some_word$"]),
        ({"reserved_tokens": []}, ["<unk>", "c", "b", "a", "some_word$"]),
    ],
)
def test_vocabulary(kwargs, tokens):
    v = Vocabulary(COUNTER, **kwargs)
    assert v.idx_to_token == tokens and len(v) == len(tokens)
    assert v.token_to_idx == {t: k for k, t in enumerate(tokens)}
    assert v.unknown_token == tokens[0] and v.reserved_tokens == kwargs.get("reserved_tokens")
    assert v.to_indices(tokens) == list(range(len(tokens))) and v.to_indices(tokens[-1]) == len(tokens) - 1
    assert v.to_indices(["never seen"]) == [0] and v.to_tokens(list(range(len(v)))) == tokens
    assert v.to_tokens(0) == tokens[0]
    for bad in (len(v), [0, 1000], "a"):
        with pytest.raises(ValueError, match="in the provided `indices` is invalid"):
            v.to_tokens(bad)


def test_other_tokens_than_words():
    v = Vocabulary(Counter([(1, 2), (1, 2), (3, 4)]), unknown_token=(0, 0))
    assert v.to_indices([(3, 4), (1, 2), (9, 9)]) == [2, 1, 0]
    assert len(Vocabulary()) == 1 and not Vocabulary(unknown_token="x").reserved_tokens


@pytest.mark.parametrize(
    "args, kwargs, words",
    [
        ((COUNTER,), {"min_freq": 0}, "`min_freq` must be set to a positive value"),
        ((COUNTER,), {"reserved_tokens": ["b", "b"]}, "cannot contain duplicate reserved tokens"),
        ((COUNTER,), {"reserved_tokens": ["<unk>"]}, "cannot contain `unknown_token`"),
        ((["a"],), {}, "must be an instance of collections.Counter"),
    ],
)
def test_vocabulary_errors(args, kwargs, words):
    with pytest.raises(AssertionError, match=words):
        Vocabulary(*args, **kwargs)


@pytest.fixture
def vectors(tmp_path):
    file = tmp_path / "my.vec"
    file.write_text("a 0.1 0.2\nb 1 2\nc 3 4\n")
    return file


def test_custom_embedding(vectors):
    e = text.embedding.CustomEmbedding(vectors, init_unknown_vec=nd.ones)
    assert (len(e), e.vec_len, e.idx_to_token) == (4, 2, ["<unk>", "a", "b", "c"])
    np.testing.assert_allclose(e.idx_to_vec.asnumpy(), [[1, 1], [0.1, 0.2], [1, 2], [3, 4]])
    assert e.get_vecs_by_tokens("b").asnumpy().tolist() == [1, 2]
    assert e.get_vecs_by_tokens(["c", "nothing", "B"]).asnumpy().tolist() == [[3, 4], [1, 1], [1, 1]]
    assert e.get_vecs_by_tokens(["B", "b"], lower_case_backup=True).asnumpy().tolist() == [[1, 2], [1, 2]]
    e.update_token_vectors(["b", "<unk>"], nd.array([[7, 8], [5, 6]]))
    assert e.get_vecs_by_tokens(["b", "?"]).asnumpy().tolist() == [[7, 8], [5, 6]]
    for value in (nd.array([2, 3]), nd.array([[2, 3]])):
        e.update_token_vectors("c", value)
        assert e.get_vecs_by_tokens("c").asnumpy().tolist() == [2, 3]
    layer = gluon.nn.Embedding(len(e), e.vec_len)
    layer.initialize()
    layer.weight.set_data(e.idx_to_vec)
    assert layer(nd.array(e.to_indices(["b", "c"]))).asnumpy().tolist() == [[7, 8], [2, 3]]


@pytest.mark.parametrize(
    "tokens, values, error, words",
    [
        (["a", "b"], nd.ones((2,)), AssertionError, "must be a 2-D NDArray"),
        (["a"], nd.ones((1, 1, 2)), AssertionError, "1-D or 2-D NDArray"),
        (["a", "b"], nd.ones((1, 2)), AssertionError, "must be equal to the number of tokens"),
        ("a", [1, 2], AssertionError, "NDArray"),
        ("zzz", nd.ones((2,)), ValueError, "Token zzz is unknown"),
    ],
)
def test_update_errors(vectors, tokens, values, error, words):
    with pytest.raises(error, match=words):
        text.embedding.CustomEmbedding(vectors).update_token_vectors(tokens, values)


@pytest.mark.parametrize(
    "content, delimiter, tokens, warning",
    [
        ("a,1,2\nb,3,4\n", ",", ["<unk>", "a", "b"], None),
        ("2 2\na 1 2\n", " ", ["<unk>", "a"], "token 2 with 1-dimensional vector .* is likely a header"),
        ("a 1 2\na 3 4\n", " ", ["<unk>", "a"], "At line 2 .* token a has been loaded and a duplicate"),
        ("<unk> 9 9\na 1 2\n", " ", ["<unk>", "a"], None),
    ],
)
def test_files_of_vectors(tmp_path, content, delimiter, tokens, warning):
    (tmp_path / "f").write_text(content)

    def load():
        return text.embedding.CustomEmbedding(str(tmp_path / "f"), delimiter)

    if warning:
        with pytest.warns(UserWarning, match=warning):
            e = load()
    else:
        e = load()
    assert e.idx_to_token == tokens
    assert e.idx_to_vec.asnumpy()[0].tolist() == ([9, 9] if content.startswith("<unk>") else [0, 0])
    assert e.get_vecs_by_tokens("a").asnumpy().tolist() == [1, 2]


@pytest.mark.parametrize(
    "content, error, words",
    [
        (None, ValueError, "must be a valid path"),
        ("a 1 2\nb\n", AssertionError, "At line 2 .* is unexpected"),
        ("a 1 2\nb 1 2 3\n", AssertionError, "the dimension of token b is 3 but the dimension of previous tokens is 2"),
    ],
)
def test_broken_files_of_vectors(tmp_path, content, error, words):
    if content is not None:
        (tmp_path / "f").write_text(content)
    with pytest.raises(error, match=words):
        text.embedding.CustomEmbedding(tmp_path / "f")


def test_reserved_tokens_have_rows(vectors):
    e = text.embedding.CustomEmbedding(vectors, reserved_tokens=["<pad>", "<eos>"])
    assert e.idx_to_token == ["<unk>", "<pad>", "<eos>", "a", "b", "c"]
    assert e.get_vecs_by_tokens(["<eos>", "b"]).asnumpy().tolist() == [[0, 0], [1, 2]]


def test_vocabularies_choose_rows(vectors):
    v = Vocabulary(Counter(["c", "c", "x"]), reserved_tokens=["a"], unknown_token="?")
    e = text.embedding.CustomEmbedding(vectors, vocabulary=v, init_unknown_vec=nd.ones)
    assert (e.idx_to_token, e.unknown_token, e.reserved_tokens) == (["?", "a", "c", "x"], "?", ["a"])
    np.testing.assert_allclose(e.idx_to_vec.asnumpy(), [[1, 1], [0.1, 0.2], [3, 4], [1, 1]])
    other = text.embedding.CustomEmbedding(vectors)
    both = text.embedding.CompositeEmbedding(v, [e, other])
    assert both.vec_len == 4 and both.idx_to_token == v.idx_to_token
    np.testing.assert_allclose(both.get_vecs_by_tokens(["c", "x"]).asnumpy(), [[3, 4, 3, 4], [1, 1, 0, 0]])
    assert text.embedding.CompositeEmbedding(v, other).vec_len == 2
    for arguments in (("v", other), (v, "e"), (v, [other, 3])):
        with pytest.raises(AssertionError, match="must be an instance"):
            text.embedding.CompositeEmbedding(*arguments)
    with pytest.raises(AssertionError, match="must be an instance"):
        text.embedding.CustomEmbedding(vectors, vocabulary={})


def test_named_embeddings(tmp_path, monkeypatch):
    monkeypatch.setenv("MXNET_HOME", str(tmp_path))
    with pytest.raises(MXNetError, match=r"GloVe: there is no file .*glove.6B.50d.txt\nNothing is downloaded: put"):
        text.embedding.create("GloVe", pretrained_file_name="glove.6B.50d.txt")
    folder = tmp_path / "embeddings" / "fasttext"
    folder.mkdir(parents=True)
    (folder / "wiki.xx.vec").write_text("1 2\na 1 2\n")
    names = text.embedding.get_pretrained_file_names()
    assert names["fasttext"] == ["wiki.xx.vec"] and names["glove"] == []
    assert text.embedding.get_pretrained_file_names("fasttext") == ["wiki.xx.vec"]
    with pytest.raises(KeyError, match="Cannot find `embedding_name` other"):
        text.embedding.get_pretrained_file_names("other")
    with pytest.warns(UserWarning, match="likely a header"):
        e = text.embedding.create("fasttext", pretrained_file_name="wiki.xx.vec")
    assert e.idx_to_token == ["<unk>", "a"]
    with pytest.warns(UserWarning, match="likely a header"):
        e = text.embedding.FastText("wiki.xx.vec", str(tmp_path / "embeddings"), vocabulary=Vocabulary(Counter("b")))
    assert e.idx_to_token == ["<unk>", "b"]


def test_an_embedding_of_ones_own(vectors):
    @text.embedding.register
    class MineOfTests(text.embedding._TokenEmbedding):
        def __init__(self, file, **kwargs):
            super().__init__(**kwargs)
            self._load_embedding(file, " ", nd.zeros)

    assert text.embedding.create("mineoftests", file=vectors).vec_len == 2


# -- datasets

LINES = "\n = Title = \n\n one two three \n two three \n"
WORDS = ["=", "Title", "=", "<eos>", "one", "two", "three", "<eos>", "two", "three", "<eos>"]


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("kind, archive", [("WikiText2", "wikitext-2-v1.zip"), ("WikiText103", "wikitext-103-v1.zip")])
def test_wikitext(tmp_path, kind, archive, packed):
    if packed:
        with zipfile.ZipFile(tmp_path / archive, "w") as file:
            file.writestr("wikitext/wiki.valid.tokens", LINES)
    else:
        (tmp_path / "wiki.valid.tokens").write_text(LINES, encoding="utf8")
    make = getattr(gluon.contrib.data.text, kind)
    found = make(str(tmp_path), "validation", seq_len=3)
    v = found.vocabulary
    assert v.idx_to_token == ["<unk>", "<eos>", "=", "three", "two", "Title", "one"]
    assert found.frequencies["two"] == 2 and len(found) == 3
    for k, (data, label) in enumerate(found):
        assert data.dtype == label.dtype == np.int32 and data.shape == (3,)
        assert v.to_tokens(data.asnumpy().tolist()) == WORDS[3 * k : 3 * k + 3]
        assert v.to_tokens(label.asnumpy().tolist()) == WORDS[3 * k + 1 : 3 * k + 4]
        if k == 2:
            break
    again = make(str(tmp_path), "validation", Vocabulary(Counter(["two"])), 3)
    assert again[0][0].asnumpy().tolist() == [0, 0, 0] and len(again.vocabulary) == 2
    assert again.frequencies["two"] == 2
    (batch,) = gluon.data.DataLoader(found, batch_size=3)
    assert [part.shape for part in batch] == [(3, 3), (3, 3)]
    with pytest.raises(MXNetError, match=f"neither wiki.test.tokens nor {archive} is in .*\nNothing is downloaded"):
        make(str(tmp_path / "elsewhere"), "test")


def test_names():
    assert mx.contrib.text is text and "text" in dir(mx.contrib)
    assert gluon.contrib.data.IntervalSampler and gluon.contrib.data.text.WikiText2
