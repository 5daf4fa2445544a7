# SPDX-License-Identifier: Apache-2.0
"""Programs as MXNet's public tutorials write them: a few steps of training on made-up data, losses and results of each."""

import math

import numpy as np
from against_mxnet.recorded.record import draw, project


def integers(high, shape, seed):
    return np.random.RandomState(seed).randint(0, high, shape)


def fill(net, seed):
    """The same parameters everywhere; shapes must be known."""
    for k, p in enumerate(net.collect_params().values()):
        p.data()[:] = 1 if p.name.endswith("gamma") else draw(p.shape, seed + k, -0.2, 0.2)


def recurrent_from_scratch(mx, hybrid):
    nd, autograd = mx.nd, mx.autograd
    size, hidden = 9, 12
    W_xh, W_hh = nd.array(draw((size, hidden), 0)), nd.array(draw((hidden, hidden), 1))
    W_hq, b_h, b_q = nd.array(draw((hidden, size), 2)), nd.zeros(hidden), nd.zeros(size)
    params = [W_xh, W_hh, b_h, W_hq, b_q]
    for param in params:
        param.attach_grad()
    text = nd.array(integers(size, (4, 33), 3))
    loss = mx.gluon.loss.SoftmaxCrossEntropyLoss()
    H = nd.zeros((4, hidden))
    for t in range(0, 32, 8):
        X, Y = text[:, t : t + 8], text[:, t + 1 : t + 9]
        H = H.detach()
        with autograd.record():
            outputs = []
            for x in [nd.one_hot(step, size) for step in X.T]:
                H = nd.tanh(nd.dot(x, W_xh) + nd.dot(H, W_hh) + b_h)
                outputs.append(nd.dot(H, W_hq) + b_q)
            cost = loss(nd.concat(*outputs, dim=0), Y.T.reshape((-1,))).mean()
        cost.backward()
        norm = nd.array([0])
        for param in params:
            norm += (param.grad**2).sum()
        norm = norm.sqrt().asscalar()
        if norm > 0.5:
            for param in params:
                param.grad[:] *= 0.5 / norm
        for param in params:
            param[:] = param - 0.5 * param.grad
        yield cost.asscalar()
    yield project(W_hh)


def attention(mx, hybrid):
    nd, nn, rnn = mx.nd, mx.gluon.nn, mx.gluon.rnn

    class Encoder(nn.Block):
        def __init__(self, **kwargs):
            super().__init__(**kwargs)
            self.embedding, self.rnn = nn.Embedding(12, 6), rnn.GRU(8, 2)

        def forward(self, inputs, state):
            return self.rnn(self.embedding(inputs).swapaxes(0, 1), state)

    class Decoder(nn.Block):
        def __init__(self, **kwargs):
            super().__init__(**kwargs)
            self.embedding, self.rnn = nn.Embedding(12, 6), rnn.GRU(8, 2)
            self.attention = nn.HybridSequential()
            self.attention.add(
                nn.Dense(5, activation="tanh", use_bias=False, flatten=False),
                nn.Dense(1, use_bias=False, flatten=False),
            )
            self.out = nn.Dense(12, flatten=False)

        def forward(self, token, state, memory):
            query = nd.broadcast_axis(state[0][-1].expand_dims(0), axis=0, size=memory.shape[0])
            alpha = nd.softmax(self.attention(nd.concat(memory, query, dim=2)), axis=0)
            x = nd.concat(self.embedding(token), (alpha * memory).sum(axis=0), dim=1)
            output, state = self.rnn(x.expand_dims(0), state)
            return self.out(output).squeeze(axis=0), state

    encoder, decoder = Encoder(), Decoder()
    X, Y = nd.array(integers(12, (4, 7), 1)), nd.array(integers(12, (4, 7), 2))
    loss = mx.gluon.loss.SoftmaxCrossEntropyLoss()

    def batch_loss():
        memory, state = encoder(X, encoder.rnn.begin_state(batch_size=4))
        token, mask, count, total = nd.array([1] * 4), nd.ones(shape=(4,)), 0, nd.array([0])
        for y in Y.T:
            output, state = decoder(token, state, memory)
            total = total + (mask * loss(output, y)).sum()
            token, count = y, count + mask.sum().asscalar()
            mask = mask * (y != 2)
        return total / count

    for net in (encoder, decoder):
        net.initialize()
        if hybrid:
            net.hybridize()
    batch_loss()
    for k, net in enumerate((encoder, decoder)):
        fill(net, 100 * k)
    trainers = [mx.gluon.Trainer(n.collect_params(), "adam", {"learning_rate": 0.01}) for n in (encoder, decoder)]
    for _ in range(4):
        with mx.autograd.record():
            cost = batch_loss()
        cost.backward()
        for trainer in trainers:
            trainer.step(1)
        yield cost.asscalar()


def encoder(mx, hybrid):
    nd, nn = mx.nd, mx.gluon.nn

    class Attention(nn.HybridBlock):
        def __init__(self, units, heads, **kwargs):
            super().__init__(**kwargs)
            self._heads = heads
            with self.name_scope():
                self.query, self.key = nn.Dense(units, flatten=False), nn.Dense(units, flatten=False)
                self.value, self.out = nn.Dense(units, flatten=False), nn.Dense(units, flatten=False)

        def hybrid_forward(self, F, x, mask):
            def split(t):
                t = F.transpose(F.reshape(t, (0, 0, self._heads, -1)), axes=(0, 2, 1, 3))
                return F.reshape(t, (-1, 0, 0), reverse=True)

            scores = F.batch_dot(split(self.query(x)), split(self.key(x)), transpose_b=True) / math.sqrt(4)
            mask = F.broadcast_like(F.repeat(mask, repeats=self._heads, axis=0).expand_dims(1), scores)
            weights = F.softmax(F.where(mask, scores, F.ones_like(scores) * -1e6), axis=-1)
            out = F.reshape(F.batch_dot(weights, split(self.value(x))), (-1, self._heads, 0, 0), reverse=True)
            return self.out(F.reshape(F.transpose(out, axes=(0, 2, 1, 3)), (0, 0, -1)))

    class Encoder(nn.HybridBlock):
        def __init__(self, units=8, longest=16, **kwargs):
            super().__init__(**kwargs)
            with self.name_scope():
                self.tokens, self.places = nn.Embedding(20, units), self.params.get("places", shape=(1, longest, units))
                self.attention, self.norm, self.last = Attention(units, 2), nn.LayerNorm(), nn.LayerNorm()
                self.feed = nn.HybridSequential()
                self.feed.add(nn.Dense(2 * units, flatten=False), nn.GELU(), nn.Dense(units, flatten=False))
                self.words, self.next = nn.Dense(20, flatten=False), nn.Dense(2)

        def hybrid_forward(self, F, tokens, lengths, masked, places):
            x = self.tokens(tokens)
            x = F.broadcast_add(x, F.slice_like(places, x, axes=(1,)))
            steps = F.contrib.arange_like(tokens, axis=1)
            x = self.norm(x + self.attention(x, F.broadcast_lesser(steps.expand_dims(0), lengths.expand_dims(1))))
            x = self.last(x + self.feed(x))
            first = F.slice_axis(x, axis=1, begin=0, end=1).reshape((0, -1))
            return self.words(F.take(F.reshape(x, (-3, 0)), masked)), self.next(first)

    net = Encoder()
    net.initialize()
    if hybrid:
        net.hybridize(static_alloc=True)
    arguments = nd.array(integers(20, (3, 7), 1)), nd.array([7, 4, 5]), nd.array([1, 9, 16, 3])
    net(*arguments)
    fill(net, 0)
    trainer = mx.gluon.Trainer(net.collect_params(), "adam", {"learning_rate": 0.01})
    loss = mx.gluon.loss.SoftmaxCELoss()
    for _ in range(3):
        with mx.autograd.record():
            words, following = net(*arguments)
            cost = loss(words, nd.array([1, 2, 3, 4])).mean() + loss(following, nd.array([0, 1, 1])).mean()
        cost.backward()
        trainer.step(1)
        yield cost.asscalar()
    yield project(words)


def word_vectors(mx, hybrid):
    nd, nn = mx.nd, mx.gluon.nn
    net = nn.HybridSequential()
    net.add(nn.Embedding(20, 6), nn.Embedding(20, 6))
    net.initialize()
    if hybrid:
        net.hybridize()
    centre, others = nd.array(integers(20, (5, 1), 1)), nd.array(integers(20, (5, 6), 2))
    label, mask = nd.array(integers(2, (5, 6), 3)), nd.array(integers(2, (5, 6), 4))
    mask[:, 0] = 1
    fill(net, 0)
    loss = mx.gluon.loss.SigmoidBinaryCrossEntropyLoss()
    trainer = mx.gluon.Trainer(net.collect_params(), "adam", {"learning_rate": 0.05})
    for _ in range(3):
        with mx.autograd.record():
            found = nd.batch_dot(net[0](centre), net[1](others).swapaxes(1, 2))
            cost = loss(found.reshape(label.shape), label, mask) * mask.shape[1] / mask.sum(axis=1)
        cost.backward()
        trainer.step(5)
        yield cost.mean().asscalar()
    W = net[0].weight.data()
    cosine = nd.dot(W, W[3]) / nd.sqrt(nd.sum(W * W, axis=1) * nd.sum(W[3] * W[3]) + 1e-9)
    yield [int(i) for i in nd.topk(cosine, k=4, ret_typ="indices").asnumpy()]


def factors(mx, hybrid):
    nd, nn, gluon = mx.nd, mx.gluon.nn, mx.gluon

    class Factors(nn.Block):
        def __init__(self, **kwargs):
            super().__init__(**kwargs)
            self.P, self.Q = nn.Embedding(10, 5), nn.Embedding(12, 5)
            self.of_user, self.of_item = nn.Embedding(10, 1), nn.Embedding(12, 1)

        def forward(self, user, item):
            together = (self.P(user) * self.Q(item)).sum(axis=1)
            return together + self.of_user(user).squeeze() + self.of_item(item).squeeze()

    net = Factors()
    net.initialize()
    if hybrid:
        net.hybridize()
    rated = integers(10, 50, 1), integers(12, 50, 2), integers(5, 50, 3) + 1
    batches = gluon.data.DataLoader(gluon.data.ArrayDataset(*rated), batch_size=16, last_batch="rollover")
    fill(net, 0)
    loss = gluon.loss.L2Loss()
    trainer = gluon.Trainer(net.collect_params(), "adam", {"learning_rate": 0.02, "wd": 1e-5})
    for _ in range(2):
        for values in batches:
            parts = [gluon.utils.split_and_load(v, [mx.cpu()], even_split=False) for v in values]
            with mx.autograd.record():
                losses = [loss(net(u, i), r.astype("float32")) for u, i, r in zip(*parts)]
            for cost in losses:
                cost.backward()
            trainer.step(values[0].shape[0])
            yield float(np.mean([cost.asnumpy().mean() for cost in losses]))
    error = mx.metric.RMSE()
    error.update([nd.array(rated[2])], [net(nd.array(rated[0]), nd.array(rated[1]))])
    yield list(error.get())


def autoencoder(mx, hybrid):
    nd, nn = mx.nd, mx.gluon.nn

    class Autoencoder(mx.gluon.HybridBlock):
        def __init__(self, **kwargs):
            self.tiny = 1e-10  # before anything of Block is there, as the tutorial has it
            super().__init__(**kwargs)
            with self.name_scope():
                self.encoder, self.decoder = (
                    nn.HybridSequential(prefix="encoder"),
                    nn.HybridSequential(prefix="decoder"),
                )
                self.encoder.add(nn.Dense(12, activation="relu"), nn.Dense(4))
                self.decoder.add(nn.Dense(12, activation="relu"), nn.Dense(15, activation="sigmoid"))

        def hybrid_forward(self, F, x, noise):
            mean, log = F.split(self.encoder(x), axis=1, num_outputs=2)
            y = self.decoder(mean + F.exp(0.5 * log) * noise)
            spread = 0.5 * F.sum(1 + log - mean * mean - F.exp(log), axis=1)
            return -F.sum(x * F.log(y + self.tiny) + (1 - x) * F.log(1 - y + self.tiny), axis=1) - spread

    net = Autoencoder()
    net.initialize()
    if hybrid:
        net.hybridize()
    x, noise = nd.array(draw((6, 15), 1, 0, 1)), nd.array(draw((6, 2), 2))
    net(x, noise)
    fill(net, 0)
    trainer = mx.gluon.Trainer(net.collect_params(), "adam", {"learning_rate": 0.01})
    for _ in range(3):
        with mx.autograd.record():
            cost = net(x, noise)
        cost.backward()
        trainer.step(6)
        yield cost.mean().asscalar()


def pictures(mx, hybrid):
    data, transforms = mx.gluon.data, mx.gluon.data.vision.transforms
    raw = integers(256, (7, 10, 12, 3), 1).astype("uint8")

    class Pictures(data.Dataset):
        def __len__(self):
            return 7

        def __getitem__(self, k):
            return mx.nd.array(raw[k], dtype="uint8"), k % 3

    steps = [transforms.Resize(8), transforms.CenterCrop(6), transforms.ToTensor()]
    whole = transforms.Compose([*steps, transforms.Normalize([0.485, 0.456, 0.406], [0.229, 0.224, 0.225])])
    for x, y in data.DataLoader(Pictures().transform_first(whole), batch_size=3, last_batch="keep"):
        yield [list(x.shape), project(x), [int(v) for v in y.asnumpy()]]


CASES = {
    f.__name__.replace("_", " "): f
    for f in (recurrent_from_scratch, attention, encoder, word_vectors, factors, autoencoder, pictures)
}


def measure(mx, name, hybrid=False):
    """What the program tells, step after step."""
    return [v if isinstance(v, list) else float(v) for v in CASES[name](mx, hybrid)]
