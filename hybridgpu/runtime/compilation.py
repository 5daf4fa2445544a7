# SPDX-License-Identifier: Apache-2.0
"""Programs by signature: found in memory, on disk, or compiled.

A :class:`Compiled` runs a Symbol for one combination of input types. Where there is no compiler the
reference interpreter runs the same graph, which is said once.
"""

from __future__ import annotations

import copy
import hashlib
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from ..backends.base import Backend, Loaded, Mode, NotBuiltError, this_thread
from ..backends.cpu import backend as _cpu  # noqa: F401  with us: the first call of a service should not wait for it
from ..backends.device_errors import call_with_retry
from ..backends.devices import Device, device_of
from ..backends.library import as_function
from ..backends.memory import empty
from ..backends.worker_thread import ThreadCall
from ..backends.write_tracking import assign
from ..cache.disk_cache import default_store
from ..cache.package_files import sources_hash
from ..compiler.ir.dims import Scope
from ..compiler.ir.graph import Graph
from ..compiler.ir.types import TensorType, tensor_type
from ..compiler.program import VERSION, LibraryStep, Program
from ..compiler.size_templates import at_own_extents
from ..compiler.target import CPU, Target
from ..context import Context
from ..core.dtypes import from_short
from ..core.fork_safe_lock import Lock
from ..core.name_table import NameTable
from ..core.rng import next_state
from ..core.settings import disabled_passes, dump_folder, numeric_mode, text_of
from ..core.source_location import user_frame
from ..ndarray.ndarray import NDArray, wrap
from ..symbol.symbol import Symbol
from ..util import is_np_shape
from .captured import refuse_draws, refuse_first
from .dimensions import Sizes, Templates, changed_types, symbolic_types
from .folded_parameters import Prelude
from .reports.events import CompileEvent, Dumper, record

if TYPE_CHECKING:
    from ..symbol.lowering import Structure

__all__ = [
    "Compilation",
    "Compiled",
    "compiled",
    "compiler_key",
    "interpret",
    "store_key",
    "target_of",
]

_NAMELESS = NameTable()


class Compiled:
    """A Symbol compiled for given input types on a device.

    Attributes:
        program: the plan, None where the reference interpreter runs.
        loaded: what runs it.
        outputs: types of the results.
        draws: True if it takes a random state as last argument.
        writes: positions of the inputs that take the values of the last results after a call.
        prelude: what computes the inputs behind the others (see runtime/folded_parameters.py), None where there are none.
        seconds: what making it cost.
        cache: 'disk' where the program was found there, 'background' while it is being made, else 'none'.
        reason: why the reference interpreter runs.
        names: what the program's nodes are called by whoever runs it; others may run it, too.
    """

    def __init__(
        self, device: Device, outputs: list[TensorType], draws: bool, program: Program | None, loaded: Any
    ) -> None:
        self.device, self.outputs, self.draws = device, outputs, draws
        self.program, self.loaded = program, loaded
        self.writes: tuple[int, ...] = ()
        self.prelude: Prelude | None = None
        self.seconds = 0.0
        self.cache, self.reason = "none", ""
        self.names = _NAMELESS

    @property
    def described(self) -> Program | None:
        """The program with names."""
        return self.program and self.program.renamed(self.names)

    def named(self, names: NameTable) -> Compiled:
        """The same program as another graph of its structure runs it."""
        other = copy.copy(self)
        other.names = names
        if self.prelude is not None:
            other.prelude = self.prelude._replace(executable=self.prelude.executable.named(names))
        return other

    @property
    def interpreted(self) -> bool:
        """Whether operators run one by one until the program is there."""
        return self.cache == "background"

    def in_mode(self, mode: Mode) -> Compiled:
        """The same program, called in another way (on a GPU; elsewhere there is one way only)."""
        if self.program is None or mode is Mode.EAGER_ALLOC:
            return self
        other = copy.copy(self)
        other.loaded = self.loaded.in_mode(mode)
        return other

    def run(
        self, inputs: Sequence[NDArray], ctx: Context, folded: Sequence[Any] = (), kind: Any = None
    ) -> list[NDArray]:
        """The results, each of ``kind`` as for ``wrap``, for arrays in ``list_inputs`` order; ``folded`` are those of the prelude."""
        arrays = [x._data for x in inputs]
        results = self.results(arrays, self.next_rng_state(ctx), folded)
        if self.writes:
            with self.device.current():
                for k, value in zip(self.writes, results[len(results) - len(self.writes) :], strict=True):
                    assign(arrays[k], value)
            results = results[: len(results) - len(self.writes)]
        return [wrap(a, ctx, kind) for a in results]

    def next_rng_state(self, ctx: Context) -> Any:
        """A fresh random state on the device, None if the graph draws nothing."""
        if not self.draws:
            return None
        refuse_draws(self.device)
        return self.device.from_host(next_state(ctx))

    def results(self, arrays: Sequence[Any], seed: Any = None, folded: Sequence[Any] = ()) -> list[Any]:
        """Results for device arrays."""
        try:
            if self.device.needs_switch():
                with self.device.current():
                    return self._results(arrays, seed, folded)
            return self._results(arrays, seed, folded)
        except Exception as e:
            self.names.rename_error(e)
            raise

    def _results(self, arrays: Sequence[Any], seed: Any, folded: Sequence[Any]) -> list[Any]:
        arguments = [*arrays, seed, *folded] if self.draws else [*arrays, *folded]
        if self.program is None:
            return call_with_retry(self.loaded, *arguments)  # type: ignore[no-any-return]
        if self.device.is_capturing():
            with self.device.capture_scope() as hold:
                return self._started(arguments, hold)
        return self._started(arguments)

    def _started(self, arguments: list[Any], hold: Callable[[Sequence[Any]], None] | None = None) -> list[Any]:
        """Results of the program; ``hold`` keeps the arrays."""
        xp = self.device.xp
        results = [empty(xp, t.shape, t.dtype.np) for t in self.outputs]
        if hold is not None:
            hold([*arguments, *results])
        self.loaded(arguments, results)
        return results


LIMIT = 1024  #: programs kept for other blocks of the same structure
_memory: dict[Any, Compiled] = {}
_templates: Templates = {}
_building = Lock()
_warned = False


def compiled(
    symbol: Symbol,
    types: Sequence[TensorType],
    training: bool,
    ctx: Context,
    fixed: frozenset[int] = frozenset(),
    name: str = "graph",
    reason: str = "first call",
    structure: Structure | None = None,
    numeric: str | None = None,
    interpreted: bool = False,
    constant: frozenset[int] = frozenset(),
    target: Target | None = None,
    first: Sequence[TensorType] = (),
    compiled_at: int | None = None,
) -> Compiled:
    """The program of ``symbol`` for input types in ``list_inputs`` order.

    Args:
        fixed: positions of inputs whose memory stays where it is from call to call (parameters).
        name, reason: for the report.
        structure: the symbol's, if known.
        numeric: the numeric mode, the environment's for None.
        interpreted: nothing is compiled, operators run one by one.
        constant: positions of fixed inputs whose values rarely change; what depends on them alone may be kept.
        target: what it is compiled for, as :func:`target_of` gives it; None for calls in no special mode from now on.
        first: the types of the first signature, by which it is decided what is symbolic; none for the first itself.
        compiled_at: as for :func:`interpret`.
    """
    from ..symbol.lowering import mutations
    from ..symbol.lowering import structure as structure_of

    device = device_of(ctx)
    backend = device.backend()
    shape = structure if structure is not None else structure_of(symbol)
    numeric = numeric_mode(numeric)
    # the device by identity (a Compiled holds it): kernels of one GPU do not run on another of the same kind
    target = target or target_of(device)
    compiler = compiler_key(backend, target)
    dims = () if interpreted or backend is None else changed_types(types, first, fixed)
    key = (shape.hash, tuple(types), training, fixed, constant, numeric, compiler, is_np_shape(), dims, id(device))
    names = shape.table(name)
    executable = _memory.get(key)
    if executable is not None:
        return executable.named(names)
    writes = mutations(symbol, training, recorded=False)
    constant -= {w.position for w in writes}

    def lower(dumper: Dumper, scope: Scope | None) -> Graph:
        from ..symbol.lowering import lower_symbol

        if dumper.folder is not None:
            dumper.write("00_symbol.json", symbol.tojson())
        named = dict(zip(symbol.list_inputs(), symbolic_types(types, dims, scope), strict=True))
        return lower_symbol(symbol, named, training, name, writes, shared=True)

    if interpreted:
        executable = interpret(lower(Dumper("", names), None), types, device, name, reason, names, compiled_at)
        executable.writes = tuple(w.position for w in writes)
        return executable
    with _building:
        executable = _memory.get(key)
        if executable is None:
            identity, own = repr(key[:9]), list(types)
            sizes = Sizes(_templates, (key[0], *key[2:8], id(device)), types, dims)
            with (
                sizes.scope() as scope,
                Compilation(
                    lower,
                    own,
                    device,
                    fixed,
                    name,
                    reason,
                    identity,
                    numeric,
                    constant,
                    names=names,
                    target=target,
                    scope=scope,
                    program=sizes.found,
                ) as job,
            ):
                executable = job.finish()
            sizes.keep(job.planned)
            executable.writes = tuple(w.position for w in writes)
            if len(_memory) >= LIMIT:  # the oldest goes; whoever uses it keeps it
                del _memory[next(iter(_memory))]
            _memory[key] = executable.named(_NAMELESS)
    return executable.named(names)


def target_of(device: Device, mode: Mode = Mode.EAGER_ALLOC) -> Target | None:
    """What programs are compiled for from now on that are called in a mode, which decides what a launch costs; None without
    a compiler.

    It changes with settings (TF32), so it is taken when a call asks for a program: who makes it later, or tells of it in
    keys, has to go by the same.
    """
    backend = device.backend()
    return None if backend is None else backend.target.with_replay(mode is Mode.GRAPH)


def compiler_key(backend: Backend | None, target: Target | None) -> str:
    """The key of what programs depend on besides their graph: the compiler and its target."""
    return "reference" if backend is None else backend.key(target)


class Compilation:
    """A program that is being made. Entering the ``with`` finds it in the store or plans it, :meth:`finish` gives it.

    Args:
        lower: makes the graph.
        types: of the arguments.
        name, reason: for the report.
        identity: everything that the graph depends on, as text.
        numeric: the numeric mode.
        constant: as for ``compiled``.
        over: results that are to replace inputs, see ``compile_graph``; without a compiler there are none.
        names: what the placeholders in the graph stand for.
        target: as for ``compiled``.
        scope: of the dimensions, None without any.
        program: what a template has given.

    Attributes:
        outputs: types of the results, known once it is planned.
        planned: the program with the dimensions in it, None where it was found.
    """

    def __init__(
        self,
        lower: Callable[[Dumper, Scope | None], Graph],
        types: Sequence[TensorType],
        device: Device,
        fixed: frozenset[int],
        name: str,
        reason: str,
        identity: str,
        numeric: str,
        constant: frozenset[int] = frozenset(),
        over: Mapping[int, int] | None = None,
        names: NameTable = _NAMELESS,
        target: Target | None = None,
        scope: Scope | None = None,
        program: Program | None = None,
    ) -> None:
        self.planned: Program | None = None
        self._scope, self._program = scope, program
        self._lower, self._types, self._device, self._fixed = lower, types, device, fixed
        self._name, self._reason, self._identity, self._numeric = name, reason, identity, numeric
        self._constant, self._donated, self._names = constant, over, names
        self._target = target or target_of(device)
        self._backend = device.backend()
        self._compiled: Compiled | None = None
        self._cached = False
        self._prewarmed: Any = ()
        self._loading: ThreadCall[Loaded] | None = None
        self._left = ExitStack()
        self._seconds = 0.0
        self.outputs: list[TensorType] = []

    def __enter__(self) -> Compilation:
        refuse_first(self._device)
        start = time.perf_counter()
        try:
            if self._backend is None:
                self._compiled = self._interpreted(_no_compiler())
            else:
                try:
                    self._plan(self._backend)
                except NotBuiltError as e:
                    self._compiled = self._interpreted(f"{e}. {e.advice}")
        except BaseException as e:
            self._left.close()
            self._names.rename_error(e)
            raise
        if self._program is not None:
            self.outputs = _outputs(self._program)
        else:
            assert self._compiled is not None
            self.outputs = self._compiled.outputs
        self._seconds = time.perf_counter() - start
        return self

    def __exit__(self, *error: Any) -> None:
        try:
            if self._loading is not None:
                self._loading.__exit__(*error)
        finally:
            self._left.close()

    def _plan(self, backend: Backend) -> None:
        if self._program is not None:  # other sizes have planned it
            self._prewarmed = self._left.enter_context(backend.prewarm(self._numeric))
            return
        store = default_store()
        key = store_key(self._identity)
        if not dump_folder():  # a dump needs the stages
            self._program = _stored(store.get("program", key))
        self._cached = self._program is not None
        if self._program is None:
            self._prewarmed = self._left.enter_context(backend.prewarm(self._numeric))
            from ..compiler.pipeline import compile_graph

            dumper = Dumper(self._name, self._names, self._scope)
            assert self._target is not None
            target = self._target.with_numeric(self._numeric)
            seen = dumper if dumper.folder else None
            graph = self._lower(dumper, self._scope)
            program = compile_graph(graph, target, self._fixed, seen, self._constant, self._donated)
            self.planned = program
            if self._scope is not None:
                program = at_own_extents(self._scope, program)
            store.put("program", key, program.to_bytes())
            self._program = program

    @property
    def source(self) -> str:
        """The text to compile, known once it is planned; '' if there is none."""
        return "" if self._program is None else self._program.source

    def start(self) -> None:
        """Begin to compile what is planned, beside what this thread does until it calls :meth:`finish`."""
        backend, program = self._backend, self._program
        alone = self._cached or this_thread.background
        if backend is not None and program is not None and not alone and backend.loads_in_parallel(program):

            def load() -> Loaded:
                with self._left.pop_all():  # Ctrl-C leaves the thread alone with them
                    return backend.load(program, self._prewarmed)

            self._loading = ThreadCall(load)

    def finish(self) -> Compiled:
        """Compile and load it; where that cannot be done, operators run one by one."""
        start = time.perf_counter()
        if self._compiled is None:
            try:
                self._compiled = self._load()
            except NotBuiltError as e:
                self._compiled = self._interpreted(f"{e}. {e.advice}")
            except BaseException as e:
                self._names.rename_error(e)
                raise
        executable = self._compiled
        executable.names = self._names
        spent = time.perf_counter() - start if self._loading is None else self._loading.seconds
        executable.seconds = self._seconds + spent
        _record(executable, self._name, self._types, self._reason)
        return executable

    def _load(self) -> Compiled:
        backend, program = self._backend, self._program
        assert backend is not None and program is not None
        loaded = backend.load(program, self._prewarmed) if self._loading is None else self._loading.result()
        executable = _loaded(program, loaded, self._device, len(self._types))
        if program.prelude is not None:
            before = _loaded(program.prelude, backend.load(program.prelude), self._device, len(program.prelude_inputs))
            executable.prelude = Prelude(before, tuple(program.prelude_inputs), program.prelude.graph)
        executable.cache = "disk" if self._cached else "none"
        return executable

    def _interpreted(self, why: str) -> Compiled:
        """The graph run by NumPy, which is said once, with the reason (if there is one)."""
        global _warned
        graph = self._lower(Dumper(self._name, self._names), None)
        if disabled := disabled_passes():  # of which a compiler would have looked at the names
            from ..compiler.pipeline import check_disabled

            check_disabled(disabled)
        if why and not _warned:
            _warned = True
            warnings.warn(
                f"hybridgpu: NumPy runs hybridized graphs operator by operator: {why}",
                RuntimeWarning,
                stacklevel=user_frame(),
            )
        executable = _interpreter(graph, self._types, self._device, self._constant)
        executable.reason = why or "HYBRIDGPU_CXX=none asks for it"
        return executable


def _loaded(program: Program, loaded: Any, device: Device, arguments: int) -> Compiled:
    return Compiled(
        device, _outputs(program), len(program.inputs) - len(program.folded_values) > arguments, program, loaded
    )


def _outputs(program: Program) -> list[TensorType]:
    return [tensor_type(tuple(shape), from_short(short)) for shape, short in program.outputs]


def store_key(identity: str) -> str:
    """The name under which the store keeps what depends on ``identity`` and on our own sources."""
    return hashlib.sha256(f"{VERSION} {sources_hash(default_store())} {identity}".encode()).hexdigest()


def _stored(data: bytes | None) -> Program | None:
    """The program of a stored form; None (a miss) if it is not one."""
    if data is None:
        return None
    try:
        return Program.from_bytes(data)
    except (AttributeError, EOFError, LookupError, TypeError, ValueError):
        return None


def _no_compiler() -> str:
    """Why there is none; '' if that is what was asked for."""
    chosen = text_of("HYBRIDGPU_CXX")
    if chosen == "none":
        return ""
    if chosen:
        return f"HYBRIDGPU_CXX={chosen} is no compiler that works, and no other is tried. Unset it to let one be found."
    return (
        "no C++ compiler that works was found (tried $CXX, c++, g++, clang++, zig). "
        "Install g++ or clang++, or `pip install ziglang`, for compiled kernels; "
        "if one is there, see whether it can write to the temporary folder."
    )


def _interpreter(
    graph: Graph, types: Sequence[TensorType], device: Device, constant: frozenset[int] = frozenset()
) -> Compiled:
    from ..compiler.pass_context import PassContext
    from ..compiler.passes import parameter_folding
    from ..compiler.passes.canonicalize.simplify import simplify
    from ..compiler.reference import Interpreter

    graph = simplify(graph)
    draws = len(graph.inputs) > len(types)
    ctx = PassContext(CPU, folded_inputs=constant, generates=lambda node: False)
    if constant:
        graph = parameter_folding.run(graph, ctx)
    folding = ctx.folding
    hook = as_function(device.library, device.xp)
    run = call_with_retry(lambda: Interpreter(graph, device.xp, special=hook))
    executable = Compiled(device, [o.type for o in graph.outputs], draws, None, run)
    if folding is not None:
        before = _interpreter(folding.prelude, [n.type for n in folding.prelude.inputs], device)
        executable.prelude = Prelude(before, folding.prelude_inputs, str(folding.prelude))
    return executable


def interpret(
    graph: Graph,
    types: Sequence[TensorType],
    device: Device,
    name: str,
    reason: str,
    names: NameTable,
    compiled_at: int | None = None,
) -> Compiled:
    """A graph that is run operator by operator until its program is there.

    Args:
        compiled_at: the call, from 1, for which the program is made; None if another thread makes it (runtime/background.py).
    """
    start = time.perf_counter()
    executable = _interpreter(graph, types, device)
    executable.seconds, executable.cache = time.perf_counter() - start, "background"
    executable.names = names
    if compiled_at is None:
        executable.reason, when = "its program is being compiled", " while it is compiled"
    elif device.backend() is None:
        executable.reason, when = "there is no compiler", ": there is no compiler"
    else:
        executable.reason, when = f"its program is compiled at call {compiled_at}", f": compiled at call {compiled_at}"
    _record(executable, name, types, f"{reason}; operators run one by one{when}")
    return executable


def _record(executable: Compiled, name: str, types: Sequence[TensorType], reason: str) -> None:
    program = executable.program
    kernels = sum(not isinstance(s, LibraryStep) for s in program.steps) if program else 0
    signature = ", ".join(repr(t) for t in types[:3]) + (f" … {len(types)} inputs" if len(types) > 3 else "")
    info = executable.loaded.info if program else None
    record(
        CompileEvent(
            name,
            signature,
            program.target if program else "reference",
            reason,
            kernels,
            info.compiled if info else 0,
            executable.cache,
            executable.seconds,
            program.numeric if program else "strict",
            info.kernels if info else (),
        ),
        executable,
    )
