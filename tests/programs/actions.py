# SPDX-License-Identifier: Apache-2.0
"""Actions of random Gluon programs: what is done with a net, as lines of Python."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from programs.layers import Choice, Shape, Writer

__all__ = ["ACTIONS", "Action", "Session"]


@dataclass(frozen=True)
class Action:
    """Something that the program does with its net."""

    kind: str
    number: int


@dataclass
class Session:
    """What the lines of actions refer to."""

    w: Writer
    shape: Shape  #: of a sample
    below: int | None  #: tokens are integers below this
    after: Shape  #: of an output's sample
    trainers: int
    line: Callable[[str], None]
    count: int = 0

    def key(self) -> str:
        self.count += 1
        return f"{self.count}"

    def batch(self, c: Choice) -> int:
        return c.of(3, 2, 3, 3, 1, 5)

    def x(self, batch: int) -> str:
        if self.below is not None:
            return f'data("x{self.key()}", {(batch, *self.shape)}, "float32", below={self.below})'
        return f'data("x{self.key()}", {(batch, *self.shape)}, dtype)'

    def loss(self, c: Choice, y: str, batch: int) -> str:
        kinds = ["(y * y).mean()", "y.sum()", f'gluon.loss.L2Loss()(y, data("t{self.key()}", y.shape, y.dtype))']
        if len(self.after) == 1:
            kinds.append(
                f'gluon.loss.SoftmaxCrossEntropyLoss()(y, data("t{self.key()}", ({batch},), y.dtype, below={self.after[0]}))'
            )
            kinds.append(f'gluon.loss.HuberLoss()(y, data("t{self.key()}", y.shape, y.dtype))')
        return c.of(*kinds).replace("y", y) if y != "y" else c.of(*kinds)

    def block(self, c: Choice) -> str:
        return c.of("net", *self.w.blocks)

    def trainer(self, c: Choice) -> str | None:
        return c.of(*(f"trainer{i}" for i in range(self.trainers))) if self.trainers else None


def _record(s: Session, c: Choice, body: Callable[[Choice, int], Iterator[str]], how: str = "") -> None:
    """Lines of ``with autograd.record():`` around the net's call."""
    batch = s.batch(c)
    s.line(f"x = {s.x(batch)}")
    s.line(f"with autograd.record({how}):")
    for line in body(c, batch):
        s.line("    " + line)


def _loss_of(s: Session) -> Callable[[Choice, int], Iterator[str]]:
    def body(c: Choice, batch: int) -> Iterator[str]:
        yield "y = net(x)"
        yield f"loss = {s.loss(c, 'y', batch)}"

    return body


def _predict(s: Session, c: Choice) -> None:
    s.line(f'observe("prediction", net({s.x(s.batch(c))}))')


def _train_mode(s: Session, c: Choice) -> None:
    s.line("with autograd.train_mode():")
    s.line(f'    observe("output in train mode", net({s.x(s.batch(c))}))')


def _step(s: Session, c: Choice, between: Callable[[], None] | None = None) -> None:
    _record(s, c, _loss_of(s))
    if between:
        between()
    s.line("loss.backward()")
    s.line('observe("loss", loss)')
    trainer = s.trainer(c)
    if trainer:
        stale = c.of("", ", ignore_stale_grad=True")
        s.line(f"{trainer}.step({c.of('x.shape[0]', '1', '2')}{stale})")


def _many_steps(s: Session, c: Choice) -> None:
    trainer = s.trainer(c)
    if not trainer:
        return _step(s, c)
    s.line(f"for _ in range({c.of(4, 12, 103)}):")
    line, s.line = s.line, lambda text: line("    " + text)
    _record(s, c, _loss_of(s))
    s.line("loss.backward()")
    s.line(f"{trainer}.step(x.shape[0], ignore_stale_grad=True)")
    s.line = line
    return None


def _all_trainers(s: Session, c: Choice) -> None:
    _record(s, c, _loss_of(s))
    s.line("loss.backward()")
    for i in range(s.trainers):
        s.line(f"trainer{i}.step(x.shape[0], ignore_stale_grad=True)")


def _gradient(s: Session, c: Choice) -> None:
    _record(s, c, _loss_of(s))
    s.line(c.of("loss.backward()", "autograd.backward([loss, y])"))


def _input_gradient(s: Session, c: Choice) -> None:
    if s.below is not None:  # MXNet differentiates no indices
        return _gradient(s, c)
    batch = s.batch(c)
    s.line(f"x = {s.x(batch)}")
    s.line(f'x.attach_grad("{c.of("write", "add")}")')
    s.line("with autograd.record():")
    s.line("    y = net(x)")
    s.line("    z = y * x.mean()" if c.of(False, True) and s.below is None else "    z = y")
    s.line(f"z.backward({c.of('', 'nd.ones_like(z) * 0.5')})")
    s.line('observe("gradient of the input", x.grad)')
    return None


def _two_calls(s: Session, c: Choice) -> None:
    def body(c: Choice, batch: int) -> Iterator[str]:
        yield "y = net(x)"
        yield f"z = net({c.of('x', s.x(batch))})"
        yield f"loss = (y * z).mean(){c.of('', ' + y.mean()')}"

    _record(s, c, body)
    s.line("loss.backward()")


def _two_records(s: Session, c: Choice) -> None:
    _record(s, c, _loss_of(s))
    s.line("first = loss")
    _record(s, c, _loss_of(s))
    for name in c.of(("loss", "first"), ("first", "loss"), ("loss",), ("first",)):
        s.line(f"{name}.backward()")


def _retained(s: Session, c: Choice) -> None:
    _record(s, c, _loss_of(s))
    s.line("loss.backward(retain_graph=True)")
    if c.of(False, True):
        s.line('observe_state("after one backward pass", net)')
    s.line("loss.backward()")


def _record_predict(s: Session, c: Choice) -> None:
    _record(s, c, _loss_of(s), "train_mode=False")
    s.line('observe("loss", loss)')
    if c.of(True, False):
        s.line("loss.backward(train_mode=False)")


def _record_only(s: Session, c: Choice) -> None:
    _record(s, c, _loss_of(s))
    s.line('observe("loss", loss)')


def _no_record_inside(s: Session, c: Choice) -> None:
    batch = s.batch(c)
    s.line(f"x = {s.x(batch)}")
    s.line("with autograd.record():")
    s.line(f"    with autograd.{c.of('pause()', 'pause(train_mode=True)')}:")
    s.line("        fixed = net(x)")
    s.line("    y = net(x)")
    s.line("    loss = ((y - fixed * 0.5) ** 2).mean()")
    s.line("loss.backward()")


def _mixed_modes(s: Session, c: Choice) -> None:
    """Derivatives of what was computed in another mode than the backward pass names."""
    kind = c.of("backward", "record", "inside")
    batch = s.batch(c)
    s.line(f"x = {s.x(batch)}")
    s.line(f"with autograd.record({'train_mode=False' if kind == 'record' else ''}):")
    if kind == "inside":
        s.line("    with autograd.predict_mode():")
        s.line("        fixed = net(x)")
    s.line("    y = net(x)")
    s.line(f"    loss = {'((y - fixed * 0.5) ** 2).mean()' if kind == 'inside' else s.loss(c, 'y', batch)}")
    s.line(f"loss.backward({'train_mode=False' if kind == 'backward' else ''})")


def _autograd_grad(s: Session, c: Choice) -> None:
    _record(s, c, _loss_of(s))
    s.line("wanted = [p.data() for p in net.collect_params().values() if p.grad_req != 'null']")
    s.line('if wanted:\n    observe("autograd.grad", autograd.grad(loss, wanted))')


def _grad_req(s: Session, c: Choice) -> None:
    req = c.of("null", "write", "add")
    s.line(f'{s.block(c)}.collect_params().setattr("grad_req", "{req}")')


def _freeze(s: Session, c: Choice) -> None:
    s.line(f'{s.block(c)}.collect_params().setattr("grad_req", "null")')


def _zero_grad(s: Session, c: Choice) -> None:
    s.line("net.collect_params().zero_grad()")


def _cast(s: Session, c: Choice) -> None:
    dtype = c.of("float64", "float32")
    s.line(f'dtype = "{dtype}"')
    s.line("net.cast(dtype)")


def _write(s: Session, c: Choice) -> None:
    block = s.block(c)
    how = c.of(
        f'p.set_data(data("w{s.key()}" + name, p.shape, p.dtype) ** 2)',
        "p.set_data(p.data() * 0.5)",
        "p.data()[:] = p.data() * 0.5",
        "p.data()[0] = 0.25",
    )
    s.line(f"for name, p in {block}.collect_params().items():")
    s.line("    if p._data is not None:")
    s.line(f"        {how}")


def _written_between(s: Session, c: Choice) -> None:
    _step(s, c, lambda: _write(s, c))


def _written_input(s: Session, c: Choice) -> None:
    """What the net was called with is written before the backward pass, as by a loop that reads batches into one array."""
    batch, kind = s.batch(c), c.of("input", "both passes", "result", "copy")
    s.line(f"x = {s.x(batch)}")
    if s.below is None and c.of(True, False):
        s.line("x.attach_grad()")
    write = c.of("x[:] = VALUES", "x *= 0.5", "x[0] = 1", "x.reshape((-1,))[1:4] = 2", "VALUES.copyto(x)")
    write = write.replace("VALUES", s.x(batch))
    if s.below is not None:
        write = f"x[:] = {s.x(batch)}"
    s.line("with autograd.record():")
    s.line(f"    y = net({'x * 1' if kind == 'copy' and s.below is None else 'x'})")
    s.line(f"    loss = {s.loss(c, 'y', batch)}")
    if kind == "both passes":
        s.line("loss.backward(retain_graph=True)")
        s.line('observe_state("after one backward pass", net)')
    s.line(write)
    if kind == "result":
        s.line("y *= 0.5")
    s.line("loss.backward()")
    s.line('observe("gradient of the written input", x.grad)')


def _step_between_passes(s: Session, c: Choice) -> None:
    _record(s, c, _loss_of(s))
    s.line("loss.backward(retain_graph=True)")
    trainer = s.trainer(c)
    if trainer:
        s.line(f"{trainer}.step({c.of(1, 2)}, ignore_stale_grad=True)")
    s.line("loss.backward()")


def _function(s: Session, c: Choice) -> None:
    """A function with a derivative of the user's own, which is not the right one, behind the net or in front of it."""
    s.w.use("Bent")
    batch = s.batch(c)
    s.line(f"x = {s.x(batch)}")
    if s.below is None:
        s.line("x.attach_grad()")
    place = c.of("behind", "between", "in front") if s.below is None else "behind"
    s.line("with autograd.record():")
    s.line(f"    y = net({'Bent(0.5)(x)' if place == 'in front' else 'x'})")
    s.line(f"    z = {'y' if place == 'in front' else 'Bent(2)(y)'}")
    s.line(f"    loss = {'(z * y).mean()' if place == 'between' else s.loss(c, 'z', batch)}")
    s.line("loss.backward()")
    s.line('observe("gradient of the input", x.grad)')


def _halves(s: Session, c: Choice) -> None:
    """Through float16 and back: parameters, and gradients that were there, are rounded."""
    s.line('net.cast("float16")')
    s.line('observe_state("in halves", net)')
    if c.of(False, True):
        batch = s.batch(c)
        s.line(f"x = {s.x(batch)}" + ("" if s.below is not None else '.astype("float16")'))
        s.line("with autograd.record():")
        s.line("    y = net(x)")
        s.line("    loss = (y * y).mean()")
        s.line("loss.backward()")
        s.line('observe("loss in halves", loss)')
        s.line('observe_state("trained in halves", net)')
    s.line("net.cast(dtype)")


def _dropout(s: Session, c: Choice) -> None:
    """What is dropped differs from way to way; that it is zero, the rest as it should be, and gradients likewise does not."""
    s.line(f"x = {s.x(s.batch(c))}")
    s.line('drop = nn.Dropout(0.75, prefix="drop_")')
    s.line("hybridize(drop)")
    s.line("y = nd.ones((50, 40), dtype=dtype, ctx=CTX) + nd.abs(net(x)).mean()")
    s.line("y.attach_grad()")
    s.line("with autograd.record():")
    s.line("    z = drop(y)")
    s.line("z.backward()")
    s.line("dropped = z.asnumpy() == 0")
    s.line('observe("three quarters are dropped", 0.7 < dropped.mean() < 0.8)')
    s.line('observe("what is left", np.abs(np.where(dropped, 4 * y.asnumpy(), z.asnumpy())).max())')
    s.line('observe("gradients where it is", ((y.grad.asnumpy() == 0) == dropped).all())')
    s.line('observe("largest gradient", y.grad.max())')
    s.line('observe("in predict mode", drop(y).mean())')


def _save_and_load(s: Session, c: Choice, between: bool = False) -> None:
    s.line("with tempfile.TemporaryDirectory() as folder:")
    line, s.line = s.line, lambda text: line("    " + text)
    s.line('net.save_parameters(os.path.join(folder, "net.params"))')
    _step(s, c)
    s.line('observe_state("before loading", net)')
    if c.of(False, True):
        _record(s, c, _loss_of(s))
        s.line('net.load_parameters(os.path.join(folder, "net.params"), ctx=CTX)')
        s.line("loss.backward()")
    else:
        s.line('net.load_parameters(os.path.join(folder, "net.params"), ctx=CTX)')
    s.line = line


def _trainer_states(s: Session, c: Choice) -> None:
    trainer = s.trainer(c)
    if not trainer:
        return
    s.line("with tempfile.TemporaryDirectory() as folder:")
    line, s.line = s.line, lambda text: line("    " + text)
    _step(s, c)
    s.line(f'{trainer}.save_states(os.path.join(folder, "states"))')
    _step(s, c)
    s.line(f'{trainer}.load_states(os.path.join(folder, "states"))')
    s.line = line


def _export(s: Session, c: Choice) -> None:
    if s.w.hybrid:
        s.line(f'observe("exported", exported(net, {s.x(s.batch(c))}))')


def _rate(s: Session, c: Choice) -> None:
    trainer = s.trainer(c)
    if trainer:
        s.line(f"if {trainer}.optimizer.lr_scheduler is None:\n    {trainer}.set_learning_rate({c.of(0.01, 0.2, 0)})")


def _multipliers(s: Session, c: Choice) -> None:
    s.line(f'{s.block(c)}.collect_params().setattr("{c.of("lr_mult", "wd_mult")}", {c.of(0.5, 0.0, 2.0)})')


def _hybridize(s: Session, c: Choice) -> None:
    s.line(f"hybridize({s.block(c)})")


def _unhybridize(s: Session, c: Choice) -> None:
    s.line(f"hybridize({s.block(c)}, False)")


def _copy(s: Session, c: Choice) -> None:
    s.line("other = copied(net)")
    s.line("other.collect_params().zero_grad()  # copies that MXNet makes have none that were added up")
    s.line(f"x = {s.x(s.batch(c))}")
    s.line('observe("copy", other(x))')
    s.line('training = gluon.Trainer(other.collect_params(), "sgd", {"learning_rate": 0.1})')
    s.line("with autograd.record():")
    s.line("    loss = (other(x) ** 2).mean()")
    s.line("loss.backward()")
    s.line("training.step(1, ignore_stale_grad=True)")
    s.line('observe_state("copy", other)')


def _hook(s: Session, c: Choice) -> None:
    if c.of(True, False):
        s.line('hook = net.register_forward_hook(lambda block, inputs, output: observe("hook", output))')
    else:
        s.line('hook = net.register_forward_pre_hook(lambda block, inputs: observe("hook", inputs[0]))')
    _predict(s, c)
    if c.of(True, False):
        s.line("hook.detach()")


def _reinitialize(s: Session, c: Choice) -> None:
    s.line(f'net.initialize(Named("{c.of("again", "init")}"), ctx=CTX, force_reinit=True)')


def _extend(s: Session, c: Choice) -> None:
    name = s.w.name("dense")
    s.line(f'{name} = nn.Dense({c.of(4, 3)}, prefix="{name}_")')
    s.line(f"{name}.initialize(Named(), ctx=CTX)")
    s.line("if dtype != 'float32':")
    s.line(f"    {name}.cast(dtype)")
    s.line(f"net.add({name})")
    s.after = (4,)


ACTIONS: dict[str, Callable[[Session, Choice], None]] = {
    "predict": _predict,
    "step": _step,
    "train mode": _train_mode,
    "gradient": _gradient,
    "input gradient": _input_gradient,
    "two calls": _two_calls,
    "two records": _two_records,
    "retained": _retained,
    "record predict": _record_predict,
    "record only": _record_only,
    "pause": _no_record_inside,
    "autograd.grad": _autograd_grad,
    "mixed modes": _mixed_modes,
    "freeze": _freeze,
    "grad_req": _grad_req,
    "zero grad": _zero_grad,
    "cast": _cast,
    "write": _write,
    "written between": _written_between,
    "written input": _written_input,
    "step between passes": _step_between_passes,
    "function": _function,
    "halves": _halves,
    "dropout": _dropout,
    "save and load": _save_and_load,
    "trainer states": _trainer_states,
    "many steps": _many_steps,
    "all trainers": _all_trainers,
    "export": _export,
    "rate": _rate,
    "multipliers": _multipliers,
    "hybridize": _hybridize,
    "unhybridize": _unhybridize,
    "copy": _copy,
    "hook": _hook,
    "reinitialize": _reinitialize,
    "extend": _extend,
}
