# SPDX-License-Identifier: Apache-2.0
"""Estimator: loops, metrics, handlers and their order, errors. Texts and numbers are those of MXNet 1.9.1."""

from __future__ import annotations

import io
import logging
import re
import warnings

import numpy as np
import pytest

import hybridgpu as mx
from hybridgpu import autograd, gluon, nd
from hybridgpu.gluon import nn
from hybridgpu.gluon.contrib import estimator as est

SOFTMAX, L2 = gluon.loss.SoftmaxCrossEntropyLoss, gluon.loss.L2Loss
MOMENTS = {
    "train_begin": est.TrainBegin, "epoch_begin": est.EpochBegin, "batch_begin": est.BatchBegin,
    "batch_end": est.BatchEnd, "epoch_end": est.EpochEnd, "train_end": est.TrainEnd,
}  # fmt: skip


def arrays(n=20, classes=4):
    draw = np.random.RandomState(0)
    return draw.rand(n, 3).astype("float32"), draw.randint(0, classes, n).astype("float32")


def loader(n=20, batch_size=8):
    x, y = arrays(n)
    return gluon.data.DataLoader(gluon.data.ArrayDataset(nd.array(x), nd.array(y)), batch_size=batch_size)


def dense(ctx=None):
    net = nn.HybridSequential()
    net.add(nn.Dense(4, in_units=3))
    net.initialize(mx.init.Constant(0.1), ctx=ctx)
    return net


def make(net=None, loss=None, context=None, **kwargs):
    context = context or mx.cpu()
    net = net or dense(context)
    if "trainer" not in kwargs:
        kwargs["trainer"] = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.1})
    made = est.Estimator(net, loss or SOFTMAX(), context=context, **kwargs)
    made.stream = io.StringIO()
    made.logger.handlers[:] = [logging.StreamHandler(made.stream)]
    return made


def logged(made):
    """Lines of the log, times left out."""
    return [re.sub(r"\d+\.\d{3}s|total \d+s", "Ts", line) for line in made.stream.getvalue().splitlines()]


class Recorder(*MOMENTS.values()):
    """Writes down each call; ends the epoch or the training where it is told to."""

    def __init__(self, end_batch=None, end_epoch=None):
        self.seen, self.end = [], {"batch_end": end_batch, "epoch_end": end_epoch}

    def __getattribute__(self, name):
        if name not in MOMENTS:
            return super().__getattribute__(name)

        def call(estimator, *args, **kwargs):
            self.seen.append((name, sorted(kwargs)))
            return [n for n, _ in self.seen].count(name) == self.end.get(name)

        return call


# -- what it consists of


@pytest.mark.parametrize(
    "loss, kwargs, train, val",
    [
        (SOFTMAX, {}, ["training accuracy", "training softmaxcrossentropyloss"], None),
        (L2, {}, ["training l2loss"], None),
        (L2, {"train_metrics": lambda: mx.metric.MSE()}, ["training mse"], None),
        (L2, {"train_metrics": lambda: [mx.metric.MSE(), mx.metric.MAE("m")]}, ["training mse", "training m"], None),
        (
            SOFTMAX,
            {
                "train_metrics": lambda: mx.metric.CompositeEvalMetric([mx.metric.MSE(), mx.metric.MAE()]),
                "val_metrics": lambda: [mx.metric.TopKAccuracy(2)],
            },
            ["training mse", "training mae"],
            ["validation top_k_accuracy_2"],
        ),
    ],
)
def test_names_of_metrics(loss, kwargs, train, val):
    made = make(loss=loss(), **{key: value() for key, value in kwargs.items()})
    assert [m.name for m in made.train_metrics] == train
    assert [m.name for m in made.val_metrics] == (val or [n.replace("training", "validation") for n in train])
    assert not set(map(id, made.train_metrics)) & set(map(id, made.val_metrics))


@pytest.mark.parametrize(
    "kwargs, error, text",
    [
        ({"loss": "mse"}, ValueError, "loss must be a Loss, refer to gluon.loss.Loss:mse"),
        ({"val_loss": 3}, ValueError, "loss must be a Loss"),
        ({"train_metrics": "acc"}, ValueError, "metrics must be a Metric or a list of Metric"),
        ({"val_metrics": [3]}, ValueError, "metrics must be a Metric or a list of Metric"),
        ({"trainer": "sgd"}, ValueError, "Trainer must be a Gluon Trainer instance, refer to gluon.Trainer:sgd"),
        ({"context": "cpu"}, ValueError, "context must be a Context or a list of Context"),
        ({"context": [mx.cpu(), 3]}, ValueError, "context must be a Context or a list of Context"),
        ({"context": [mx.gpu(77)]}, AssertionError, r"gpu\(77\) is not available, .* in one of: mx.cpu\(\)"),
        ({"batch_processor": 3}, ValueError, r"must contain fit_batch\(\) and evaluate_batch\(\) methods"),
    ],
)
def test_errors_of_arguments(kwargs, error, text):
    with pytest.raises(error, match=text):
        make(net=dense(), **kwargs)


def test_initialisation_and_warnings():
    net = nn.Dense(4, in_units=3)
    made = make(net, initializer=mx.init.One(), trainer=gluon.Trainer({}, "sgd"))  # not initialised: no warning
    assert (net.weight.data().asnumpy() == 1).all()
    with pytest.warns(UserWarning, match="Network already fully initialized, skipping initialization"):
        make(net, initializer=mx.init.Zero(), trainer=made.trainer)
    assert (net.weight.data().asnumpy() == 1).all()
    with pytest.warns(UserWarning, match="No trainer specified, default SGD optimizer with learning rate 0.001"):
        made = make(net, trainer=None)
    assert made.trainer.learning_rate == 0.001
    partly = nn.Sequential()
    partly.add(dense(), nn.Dense(2, in_units=4))
    with pytest.warns(UserWarning, match="is already initialized, ignoring"):
        make(partly, initializer=mx.init.One(), trainer=made.trainer)
    assert (partly[0][0].weight.data().asnumpy() == np.float32(0.1)).all()
    assert (partly[1].weight.data().asnumpy() == 1).all()


def test_default_context_and_logger(capsys):
    net = dense()
    trainer = gluon.Trainer(net.collect_params(), "sgd")
    made = est.Estimator(net, L2(), trainer=trainer, context=[])
    assert made.context == [mx.gpu(0) if mx.context.num_gpus() else mx.cpu()]
    made.logger.info("to the screen")
    assert capsys.readouterr().out == "to the screen\n"


# -- loops


def by_hand(epochs, contexts=1):
    """The parameters that an ordinary loop makes."""
    net = dense()
    trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.1})
    for _ in range(epochs):
        for x, y in loader():
            with autograd.record():
                value = SOFTMAX()(net(x), y)
            value.backward()
            trainer.step(x.shape[0])
    return [p.data().asnumpy() for p in net.collect_params().values()]


@pytest.mark.parametrize("hybrid", [False, True], ids=["eager", "hybrid"])
@pytest.mark.parametrize("context", [mx.cpu(), [mx.cpu(0), mx.cpu(1)]], ids=["one device", "two devices"])
@pytest.mark.parametrize("asked, epochs", [({"epochs": 2}, 2), ({"batches": 3}, 1), ({"batches": 6}, 2)])
def test_training_is_the_ordinary_loop(asked, epochs, context, hybrid):
    net = dense(context)
    if hybrid:
        net.hybridize()
    made = make(net, context=context)
    made.fit(loader(), **asked)
    for parameter, expected in zip(net.collect_params().values(), by_hand(epochs), strict=True):
        for copy in parameter.list_data():
            np.testing.assert_allclose(copy.asnumpy(), expected, rtol=2e-5, atol=1e-6)


def test_evaluation():
    made = make()
    before = made.net[0].weight.data().asnumpy()
    made.evaluate(loader())
    x, y = arrays()
    (accuracy, loss) = (m.get()[1] for m in made.val_metrics)
    assert accuracy == pytest.approx((y == 0).mean())  # equal outputs: the first class wins
    assert loss == pytest.approx(np.log(4), rel=1e-5)
    assert np.isnan(made.train_metrics[0].get()[1])
    assert (made.net[0].weight.data().asnumpy() == before).all()


def test_dropout_only_while_training():
    seen = []

    class Spy(gluon.Block):
        def forward(self, x):
            seen.append(autograd.is_training())
            return x

    net = nn.Sequential()
    net.add(dense(), Spy())
    make(net).fit(loader(8), loader(8), epochs=1)
    assert seen == [True, False]


def test_another_net_and_loss_for_validation():
    net, val_net = dense(), nn.Dense(4, in_units=3)
    val_net.initialize(mx.init.Zero())
    made = make(net, L2(), train_metrics=mx.metric.Loss(), val_net=val_net, val_loss=gluon.loss.L1Loss())
    data = gluon.data.DataLoader(gluon.data.ArrayDataset(nd.ones((4, 3)), nd.ones((4, 4)) * 3), batch_size=4)
    made.evaluate(data)
    assert made.val_metrics[0].get()[1] == pytest.approx(3)


def test_axis_of_batches():
    net = nn.Dense(2, in_units=2)
    net.initialize(ctx=[mx.cpu(0), mx.cpu(1)])
    made, seen = make(net, L2(), [mx.cpu(0), mx.cpu(1)]), []

    class Shapes(est.BatchEnd):
        def batch_end(self, estimator, *args, **kwargs):
            seen.append([value.shape for value in (*kwargs["label"], *kwargs["loss"])])

    data = gluon.data.DataLoader(list(range(8)), 4, batchify_fn=lambda samples: [nd.ones((3, 4)), nd.zeros((3, 4))])
    made.fit(data, data, epochs=1, batch_axis=1, event_handlers=Shapes())
    assert made.batch_axis == 1 and seen == [[(3, 2), (3, 2), (3,), (3,)]] * 2
    assert made.trainer.optimizer.rescale_grad == 1 / 6  # entries of the losses


@pytest.mark.parametrize(
    "call, text",
    [
        (lambda e: e.fit([nd.ones((2, 3))], epochs=1), "only support input as Gluon DataLoader"),
        (lambda e: e.evaluate([nd.ones((2, 3))]), "only support input as Gluon DataLoader"),
        (lambda e: e.fit(loader()), "specify one and only one of: epochs or batches"),
        (lambda e: e.fit(loader(), epochs=1, batches=1), "specify one and only one of: epochs or batches"),
        (lambda e: e.fit(loader(), epochs=0), "specify one and only one of: epochs or batches"),
        (lambda e: e.fit(loader(), epochs=1, event_handlers=[3]), "handlers must be an EventHandler or a list"),
        (lambda e: e.evaluate(loader(), event_handlers="x"), "handlers must be an EventHandler or a list"),
        (
            lambda e: e.fit(loader(), epochs=1, event_handlers=est.LoggingHandler(metrics=mx.metric.RMSE("val acc"))),
            "LoggingHandler refers to a metric instance EvalMetric: .* outside of the known training and validation",
        ),
        (
            lambda e: e.evaluate(loader(), event_handlers=est.LoggingHandler(metrics=e.train_metrics)),
            "refers to a metric instance",
        ),
    ],
)
def test_errors_of_loops(call, text):
    with pytest.raises(ValueError, match=text):
        call(make())


def test_batch_processor():
    class Halves(est.BatchProcessor):
        """Batches are (data, labels, weights)."""

        def fit_batch(self, estimator, batch, batch_axis=0):
            x, y, w = batch
            with autograd.record():
                pred = estimator.net(x)
                loss = estimator.loss(pred, y, w)
            loss.backward()
            return [x], [y], [pred], [loss]

        def evaluate_batch(self, estimator, batch, batch_axis=0):
            return super().evaluate_batch(estimator, batch[:2], batch_axis)

    def trained(weight, **kwargs):
        made = make(**kwargs)
        x, y = arrays()
        parts = [nd.array(x), nd.array(y), nd.ones((20, 1)) * weight]
        data = gluon.data.DataLoader(gluon.data.ArrayDataset(*parts), batch_size=8)
        made.fit(data, data, epochs=1)
        return made.net[0].weight.data().asnumpy(), made.val_metrics[1].get()[1]

    (plain, value), (ours, same) = trained(1), trained(1, batch_processor=Halves())
    np.testing.assert_array_equal(plain, ours)
    assert value == same
    assert (trained(0, batch_processor=Halves())[0] == np.float32(0.1)).all()


# -- handlers


def test_each_moment_is_called():
    made, handler = make(), Recorder()
    made.fit(loader(8), epochs=2, event_handlers=handler)
    batch = [("batch_begin", ["batch"]), ("batch_end", ["batch", "label", "loss", "pred"])]
    epoch = [("epoch_begin", []), *batch, ("epoch_end", [])]
    assert handler.seen == [("train_begin", []), *epoch, *epoch, ("train_end", [])]


@pytest.mark.parametrize(
    "end, batches, epochs",
    [
        ({}, 9, 3),
        ({"end_epoch": 2}, 6, 2),
        ({"end_batch": 2}, 8, 3),  # only that epoch is cut short
        ({"end_batch": 1, "end_epoch": 1}, 1, 1),
    ],
)
def test_ends(end, batches, epochs):
    made, handler = make(), Recorder(**end)
    made.fit(loader(), epochs=3, event_handlers=[handler])
    names = [name for name, _ in handler.seen]
    assert (names.count("batch_end"), names.count("epoch_end"), names.count("train_end")) == (batches, epochs, 1)


@pytest.mark.parametrize("name, moment", MOMENTS.items())
def test_what_a_moment_does_by_default(name, moment):
    assert not getattr(moment(), name)(None)
    assert [len(found) for found in make()._categorize_handlers([moment()])] == [
        int(m is moment) for m in MOMENTS.values()
    ]


def test_default_handlers_and_their_order():
    made = make()

    class Early(est.BatchEnd):
        priority = -1500

    class Late(est.EpochEnd):
        pass

    stop = est.EarlyStoppingHandler(made.val_metrics[0], mode="max")
    given = [Late(), Early(), stop]

    def names(handlers):
        return [type(h).__name__.removesuffix("Handler") for h in handlers]

    assert names(made._prepare_default_handlers(loader(), given)) == [
        "GradientUpdate", "Early", "Metric", "Validation", "Late", "EarlyStopping", "Stopping", "Logging",
    ]  # fmt: skip
    assert len(given) == 3  # the caller's list stays his
    assert names(made._prepare_default_handlers(None, None)) == ["GradientUpdate", "Metric", "Stopping", "Logging"]
    assert names(made._prepare_default_validation_handlers(None)) == ["Metric", "Logging"]
    own = [est.GradientUpdateHandler(), est.MetricHandler(made.train_metrics), est.LoggingHandler()]
    assert len(made._prepare_default_handlers(None, own)) == 4


def test_methods_may_be_named_after_metrics():
    class Own(est.EpochEnd):
        metric_of_mine = None

        def write_metrics(self):
            pass

    make().fit(loader(8), epochs=1, event_handlers=Own())


@pytest.mark.parametrize(
    "interval, lines",
    [
        (
            "epoch",
            [
                "Training begin: using optimizer SGD with current learning rate 0.1000 ",
                "Train for 1 epochs.",
                "[Epoch 0] Begin, current learning rate: 0.1000",
                "Validation Begin",
                "[Epoch 0] Finished in Ts, validation accuracy: 0.2500, validation softmaxcrossentropyloss: 1.3818",
                "[Epoch 0] Finished in Ts, training accuracy: 0.2000, training softmaxcrossentropyloss: 1.3899",
                "Train finished using Ts with 1 epochs. training accuracy: 0.2000, training softmaxcrossentropyloss: 1.3899",
            ],
        ),
        (
            2,
            [
                "Training begin: using optimizer SGD with current learning rate 0.1000 ",
                "Train for 1 epochs.",
                "[Epoch 0] Begin, current learning rate: 0.1000",
                "[Epoch 0][Batch 0][Samples 8] time/interval: Ts training accuracy: 0.1250, training softmaxcrossentropyloss: 1.3863",
                "[Epoch 0][Batch 2][Samples 20] time/interval: Ts training accuracy: 0.2000, training softmaxcrossentropyloss: 1.3899",
                "Validation Begin",
                "[Epoch 0] Finished in Ts, validation accuracy: 0.2500, validation softmaxcrossentropyloss: 1.3818",
                "[Epoch 0] Finished in Ts, training accuracy: 0.2000, training softmaxcrossentropyloss: 1.3899",
                "Train finished using Ts with 1 epochs. training accuracy: 0.2000, training softmaxcrossentropyloss: 1.3899",
            ],
        ),
    ],
)
def test_log(interval, lines):
    made = make()
    handler = est.LoggingHandler(interval, made.train_metrics)
    made.fit(loader(), loader(12), epochs=1, event_handlers=[handler])
    assert logged(made) == lines
    assert (handler.current_epoch, handler.batch_index) == (1, 0)


def test_log_without_metrics():
    made = make()
    made.fit(loader(8), batches=1, event_handlers=[est.LoggingHandler(1)])
    assert logged(made)[1:] == [
        "Train for 1 batches.", "Validation Begin", "[Epoch 0][Batch 0][Samples 8] time/interval: Ts",
        "[Epoch 0] Finished in Ts", "Train finished using Ts with 1 epochs.",
    ]  # fmt: skip
    with pytest.raises(ValueError, match="log_interval must be either an integer or string 'epoch'"):
        est.LoggingHandler("batch")


@pytest.mark.parametrize(
    "periods, times", [((1, None), 2), ((2, None), 1), ((None, 2), 3), ((1, 3), 4), ((None, None), 0)]
)
def test_validation_periods(periods, times):
    made, calls = make(), []
    handlers = [Recorder()]

    def evaluate(**kwargs):
        calls.append(kwargs)
        made.evaluate(**kwargs)

    data = loader(8)
    handler = est.ValidationHandler(data, evaluate, *periods, event_handlers=handlers)
    made.fit(loader(), data, epochs=2, event_handlers=handler)
    assert calls == [{"val_data": data, "batch_axis": 0, "event_handlers": handlers}] * times
    assert [name for name, _ in handlers[0].seen] == ["epoch_begin", "batch_begin", "batch_end", "epoch_end"] * times


def test_gradients_may_be_gathered():
    """A handler of one's own takes the place of the step after each batch."""

    class Every(est.GradientUpdateHandler):
        steps = 0

        def batch_end(self, estimator, *args, **kwargs):
            Every.steps += 1
            if Every.steps % 3 == 0:
                super().batch_end(estimator, *args, **kwargs)

    made = make()
    made.fit(loader(), batches=2, event_handlers=Every())
    assert (made.net[0].weight.data().asnumpy() == np.float32(0.1)).all()
    made.fit(loader(), batches=1, event_handlers=Every())
    assert (made.net[0].weight.data().asnumpy() != np.float32(0.1)).any()
    handler = est.GradientUpdateHandler()
    made = make()
    made.fit(loader(8), epochs=1)
    assert made.trainer.optimizer.rescale_grad == 1 / 8 and handler.priority == -2000


# the loss falls: 1.3899, 1.3754, 1.3635, … (as MXNet gave)
@pytest.mark.parametrize(
    "mode, patience, baseline, min_delta, epochs, stopped",
    [
        ("max", 0, None, 0, 2, 1),
        ("max", 2, None, 0, 3, 2),
        ("min", 1, None, 0, 6, 0),
        ("max", 1, 0.9, 0, 2, 1),
        ("min", 0, None, 0.5, 2, 1),
        ("min", 0, 1.0, 0, 1, 0),
    ],
)
def test_early_stopping(mode, patience, baseline, min_delta, epochs, stopped):
    made = make()
    handler = est.EarlyStoppingHandler(made.train_metrics[1], min_delta, patience, mode, baseline)
    made.fit(loader(), epochs=6, event_handlers=handler)
    assert (handler.current_epoch, handler.stopped_epoch) == (epochs, stopped)
    said = (
        f"[Epoch {stopped}] EarlyStoppingHandler: early stopping due to training softmaxcrossentropyloss not improving"
    )
    assert (said in logged(made)) == (stopped > 0)
    assert handler.stop_training == (epochs < 6)


def test_early_stopping_arguments():
    with pytest.raises(ValueError, match="Please provide one of the metric objects"):
        est.EarlyStoppingHandler("acc")
    with pytest.raises(ValueError, match="CompositeEvalMetric is not supported for EarlyStoppingHandler"):
        est.EarlyStoppingHandler(mx.metric.CompositeEvalMetric())
    with pytest.warns(UserWarning, match="`greater` operator will be used to determine if loss has improved"):
        handler = est.EarlyStoppingHandler(mx.metric.Loss())
    assert handler.monitor_op is np.greater
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        est.EarlyStoppingHandler(mx.metric.Loss(), mode="x")
    assert caught[0].category is RuntimeWarning and "EarlyStopping mode x is unknown" in str(caught[0].message)
    made = make()
    with pytest.warns(RuntimeWarning, match="validation accuracy is not updated"):
        made.fit(loader(8), epochs=1, event_handlers=est.EarlyStoppingHandler(made.val_metrics[0], mode="max"))


def test_a_handler_serves_twice():
    made, handler = make(), est.StoppingHandler()
    for k in (1, 2):
        seen = Recorder()
        made.fit(loader(), epochs=k, event_handlers=[handler, seen])
        assert len([n for n, _ in seen.seen if n == "batch_end"]) == 3 * k
