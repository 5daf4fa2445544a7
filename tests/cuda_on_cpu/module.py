# SPDX-License-Identifier: Apache-2.0
"""Compiling kernel text with g++: preprocess, translate, compile, link, cache, load.

module = Module(kernel_text, options=["-DN=8"], names=["scale<float>"], include_dirs=["kernels"])
module["scale<float>"](grid, block, args)
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import hashlib
import json
import os
import re
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from .elf import thread_local_symbols, variable_name
from .faults import CompileError
from .includes import find_includes
from .launch import Kernel
from .native import runtime
from .toolchain import (
    HERE,
    build_folder,
    cache_dir,
    compiler,
    harness_digest,
    libgcc,
    linker,
    nvidia_includes,
    run,
    tls_flags,
)
from .translate import KernelDecl, Translation, orders_memory, translate

__all__ = ["Module"]

_CHECKS = (
    "-fsanitize=thread",
    "-fsanitize=alignment,bounds-strict,shift,integer-divide-by-zero,signed-integer-overflow,unreachable",
    "-fsanitize-recover=all",
    "--param",
    "tsan-instrument-func-entry-exit=0",
    "--param",
    "tsan-distinguish-volatile=1",
)
# no-tree-sra: a float4 load stays one 16-byte access. no-extern-tls-init: shared variables have no
# constructors, so a declaration needs no call to find out.
_FLAGS = (
    "-std=c++17",
    "-g1",
    "-fPIC",
    "-fno-exceptions",
    "-fno-finite-loops",
    "-ffp-contract=off",
    "-fno-strict-aliasing",
    "-fno-tree-sra",
    "-fno-extern-tls-init",
    "-fvisibility=hidden",
    "-w",
)
_IGNORED_OPTIONS = re.compile(
    r"-?-(?:default-device|device-as-default-execution-space|lineinfo|generate-line-info|G"
    r"|device-debug|fmad=\w+|ftz=\w+|prec-div=\w+|prec-sqrt=\w+|maxrregcount=\d+|dopt=?\w*"
    r"|extra-device-vectorization|restrict|ptxas-options=.*|diag-\w+=.*|w|disable-warnings"
    r"|minimal|no-cache|version-ident=\w+|split-compile=\d+|modify-stack-limit=\w+)"
)
# Every kernel library finds its shared memory by asking here, where the C library would give a host
# thread's own: the runtime lets coc_shared_now follow the block that runs.
_GLUE = """
extern "C" char* coc_shared_now;
extern "C" __attribute__((visibility("hidden"), no_sanitize("thread", "alignment")))
void* __tls_get_addr(unsigned long* index) { return coc_shared_now + index[1]; }
"""
_OWN = 'extern "C" __attribute__((no_sanitize("thread", "alignment")))'
_MEMORY_FUNCTIONS = f"""
{_OWN} void* memcpy(void* to, const void* from, unsigned long n) {{
  return coc_checked_copy(to, from, n, __builtin_return_address(0));
}}
{_OWN} void* memmove(void* to, const void* from, unsigned long n) {{
  return coc_checked_copy(to, from, n, __builtin_return_address(0));
}}
{_OWN} void* memset(void* to, int value, unsigned long n) {{
  return coc_checked_fill(to, value, n, __builtin_return_address(0));
}}
"""


@dataclass(frozen=True)
class _Options:
    """Compiler options as NVRTC takes them, taken apart."""

    prelude: str  # lines of #define and #undef
    flags: tuple[str, ...]
    include_dirs: tuple[str, ...]


def _parse_options(options: Sequence[str]) -> _Options:
    prelude: list[str] = []
    flags: list[str] = []
    folders: list[str] = []
    rest = list(options)
    while rest:
        option = rest.pop(0)
        if option in ("-D", "-U", "-I", "--define-macro", "--undefine-macro", "--include-path"):
            option += ("=" if option.startswith("--") else "") + (rest.pop(0) if rest else "")
        if match := re.fullmatch(r"(?:-D|--define-macro=)(\w+(?:\([^)]*\))?)(?:=(.*))?", option):
            prelude.append(f"#define {match[1]} {'1' if match[2] is None else match[2]}")
        elif match := re.fullmatch(r"(?:-U|--undefine-macro=)(\w+)", option):
            prelude.append(f"#undef {match[1]}")
        elif match := re.fullmatch(r"(?:-I|--include-path=)(.+)", option):
            folders.append(match[1])
        elif match := re.fullmatch(r"-?-(?:gpu-architecture|arch)=(?:sm|compute)_(\d+)[af]?", option):
            prelude.append(f"#define __CUDA_ARCH__ {match[1]}0")
        elif match := re.fullmatch(r"-?-std=(c\+\+\d\d)", option):
            flags.append(f"-std={match[1]}")
        elif option.lstrip("-") == "use_fast_math":
            prelude.append("#define __USE_FAST_MATH__ 1")
        elif not _IGNORED_OPTIONS.fullmatch(option):
            raise CompileError(f"unknown compiler option {option!r}")
    return _Options("".join(f"{line}\n" for line in prelude), tuple(flags), tuple(folders))


# ------------------------------------------------------------------------------------- building
@functools.cache
def _header(flags: tuple[str, ...], half: bool) -> Path:
    """The forced header, precompiled with these flags."""
    digest = hashlib.sha256("\0".join([harness_digest(), str(half), *flags]).encode())
    folder = cache_dir() / f"header-{digest.hexdigest()[:24]}"
    header = folder / "forced.h"
    if header.exists():
        os.utime(folder)
    else:
        with build_folder() as scratch:
            text = '#include "cuda_on_cpu.h"\n' + ('#include "coc_half.h"\n' if half else "")
            made = scratch / "header"
            made.mkdir()
            (made / "forced.h").write_text(text)
            run([compiler(), *flags, "-x", "c++-header", made / "forced.h"])
            with contextlib.suppress(OSError):  # another process was faster
                os.rename(made, folder)
    return header


def _flags(check: bool, opt: str, options: _Options) -> tuple[str, ...]:
    own = ["-I", str(HERE / "include")]
    system = [f"-isystem{d}" for d in nvidia_includes()]
    checks = [*_CHECKS, "-DCOC_CHECKED=1"] if check else []
    return (*_FLAGS, opt, *tls_flags(), *checks, *options.flags, *own, *system)


def _entries(names: Sequence[str]) -> str:
    lines = []
    for i, name in enumerate(names):
        export = 'extern "C" __attribute__((visibility("default")))'
        lines.append(f"{export} void coc_entry_{i}(void** coc_args) {{ coc::call({name}, coc_args); }}")
        lines.append(
            f"{export} int coc_signature_{i}(char* coc_kinds, int* coc_sizes) "
            f"{{ return coc::signature({name}, coc_kinds, coc_sizes); }}"
        )
    return "\n".join(lines)


def _dynamic_stub(symbols: Sequence[str], alignment: int) -> str:
    """Assembly that defines the extern shared arrays, all at one place after the declared ones.

    They are aligned as promised, and deliberately no better.
    """
    lines = ['.section .tbss,"awT",@nobits', f".balign {2 * alignment}", f".zero {alignment}"]
    for symbol in symbols:
        lines += [f".globl {symbol}", f".hidden {symbol}", f".type {symbol}, @tls_object"]
    lines += [f"{symbol}:" for symbol in symbols]
    return "\n".join([*lines, ".zero 16", '.section .note.GNU-stack,"",@progbits', ""])


@dataclass(frozen=True)
class _Unit:
    """A text with the kernels wanted of it, and the library to make."""

    source: str
    names: tuple[str, ...]
    library: Path


def _build(
    units: Sequence[_Unit],
    options: _Options,
    include_dirs: Sequence[str],
    flags: tuple[str, ...],
    half: bool,
    check: bool,
) -> None:
    """Makes the libraries and, beside each, the description of its kernels and shared memory.

    Several texts, which include the same files, are compiled as one. Each library is linked from it with what its own
    kernels need, and nothing else: it is what the text alone would become.
    """
    header = _header(flags, half)
    if not header.exists():  # the folder is emptied now and then
        _header.cache_clear()
        header = _header(flags, half)
    with build_folder() as folder:
        expanded = folder / "unit.ii"
        (folder / "kernel.cu").write_text(_joined([u.source for u in units]))
        (folder / "coc_prelude.h").write_text(options.prelude)
        # the user's folders come first; after them the harness's own headers shadow NVIDIA's
        command = [compiler(), *(f"-I{d}" for d in include_dirs), *flags]
        command += ["-E", "-fpch-preprocess", "-include", header, "-include", "coc_prelude.h"]
        run([*command, "-x", "c++", "kernel.cu", "-o", expanded], folder)
        roots = tuple(os.path.join(d, "") for d in include_dirs)
        common, *parts = [
            translate(part, lambda name: name == "kernel.cu" or name.startswith(roots))
            for part in _NEXT.split(expanded.read_text())
        ]
        parts = [t.after(common) for t in parts] or [common]
        entries = [
            list(u.names) or [f"::{d.qualified}" for d in t.kernels if not d.template] for u, t in zip(units, parts)
        ]
        if not all(entries):
            raise CompileError("the text has no kernel (those that are templates go in names)")
        glue = _GLUE + (_MEMORY_FUNCTIONS if check else "") + _entries([name for found in entries for name in found])
        text = common.text + "".join(t.text for t in parts if t is not common)
        expanded.write_text(f'{text}\n# 1 "glue.cpp"\n{glue}\n')
        several = ["-ffunction-sections", "-fdata-sections"] if len(units) > 1 else []
        inputs = [folder / "unit.o"]
        run([compiler(), *flags, *several, "-fpreprocessed", "-c", "unit.ii", "-o", inputs[0]], folder)
        missing = [v.symbol for v in thread_local_symbols(inputs[0]) if v.offset < 0]
        if missing:
            stub = folder / "stub.s"
            stub.write_text(_dynamic_stub(missing, max(t.dynamic_alignment for t in parts)))
            inputs.append(folder / "stub.o")
            run([compiler(), "-c", stub, "-o", inputs[1]])
        first = 0
        for unit, translation, found in zip(units, parts, entries):
            own = _only(range(first, first + len(found)), folder) if several else []
            first += len(found)
            _link(unit, translation, [*inputs, *own], missing, folder)


_NEXT = re.compile(r"^#pragma coc_unit\n", re.M)  #: between texts
_INCLUDE = re.compile(r"^[ \t]*#[ \t]*include.*$", re.M)


def _joined(sources: Sequence[str]) -> str:
    """Several texts as one, each with its own numbers of lines; what they include comes first."""
    if len(sources) == 1:
        return sources[0] + "\n"
    included = dict.fromkeys(line for source in sources for line in _INCLUDE.findall(source))
    return "\n".join([*included, *(f'#pragma coc_unit\n#line 1 "kernel.cu"\n{source}' for source in sources), ""])


def _only(numbers: Sequence[int], folder: Path) -> list[str | Path]:
    """Options of the linker that leave out what these entries do not need, and number them from 0."""
    script = folder / "exported"
    names = [(f"coc_{what}_{k}", f"coc_{what}_{n}") for k, n in enumerate(numbers) for what in ("entry", "signature")]
    script.write_text("{ global: " + "".join(f"{name}; " for name, _ in names) + "local: *; };")
    # discarded functions have their lines at address 0: what is kept lies beyond all of them
    return [
        *(word for name, made in names for word in ("--defsym", f"{name}={made}")),
        *("--gc-sections", "--section-start=.text=0x1000000", "--version-script", script),
    ]


def _link(
    unit: _Unit, translation: Translation, inputs: Sequence[str | Path], missing: Sequence[str], folder: Path
) -> None:
    # The C library, libm and the checks come from the runtime library at load time; -Bsymbolic
    # makes the kernel call the memcpy of the glue nevertheless.
    made = folder / "out.so"
    link = ["-shared", "-Bsymbolic", "--eh-frame-hdr", "--hash-style=gnu"]
    run([linker(), *link, *inputs, libgcc(), "-o", made])
    names = unit.names or [d.name for d in translation.kernels if not d.template]
    (folder / "out.json").write_text(json.dumps(_describe(made, translation, names, missing)))
    os.replace(folder / "out.json", unit.library.with_suffix(".json"))
    os.replace(made, unit.library)


def _describe(library: Path, translation: Translation, names: Sequence[str], dynamic: Sequence[str]) -> dict[str, Any]:
    variables = [v for v in thread_local_symbols(library) if v.offset >= 0]
    declared = [v for v in variables if v.symbol not in dynamic]
    static = max((v.offset + v.size for v in declared), default=0)
    at = next((v.offset for v in variables if v.symbol in dynamic), static)
    if at < static:
        raise CompileError("the linker did not put the extern shared arrays last")
    return {
        "static_shared": static,
        "dynamic_at": at,
        "variables": [[v.offset, v.size, variable_name(v.symbol)] for v in declared],
        "fenced": translation.fenced,
        "kernels": [_kernel(name, translation.kernels) for name in names],
    }


def _kernel(name: str, decls: Sequence[KernelDecl]) -> dict[str, Any]:
    """The declaration that a name expression such as 'ns::scale<float>' stands for."""
    plain = re.sub(r"<.*", "", name, flags=re.S).strip().removeprefix("::")
    fits = [d for d in decls if plain in (d.qualified, d.name)]
    fits = fits or [d for d in decls if d.name == plain.split("::")[-1]]
    if not fits:
        return {"name": name, "params": [], "max_threads": None, "cluster": None}
    found = asdict(fits[0])
    found["name"] = name
    return found


# -------------------------------------------------------------------------------------- loading
class _Loaded:
    """A kernel library in this process."""

    def __init__(self, path: Path, check: bool) -> None:
        self.path = path
        self.description = json.loads(path.with_suffix(".json").read_text())
        self.library = ctypes.CDLL(str(path))
        self.handle = self._register(check)
        self.names = [k["name"] for k in self.description["kernels"]]
        self._lines: dict[int, list[str]] = {}

    def _register(self, check: bool) -> int:
        static = self.description["static_shared"]
        variables = self.description["variables"]
        owner = bytearray(static)
        for number, (offset, size, _) in enumerate(variables):
            owner[offset : offset + size] = bytes([number % 255 + 1]) * size
        inside = ctypes.cast(self.library.coc_entry_0, ctypes.c_void_p)
        offsets = (ctypes.c_uint * max(1, len(variables)))(*[v[0] for v in variables])
        labels = (ctypes.c_char_p * max(1, len(variables)))(*[v[2].encode() for v in variables])
        return runtime().coc_module_new(
            inside,
            static,
            self.description["dynamic_at"],
            int(self.description["fenced"]),
            int(check),
            (ctypes.c_char * max(1, static)).from_buffer_copy(bytes(owner) or b"\0"),
            len(variables),
            offsets,
            labels,
        )

    def frames(self, pc: int) -> list[str]:
        """The inlined frames at an image offset as 'file:line', innermost first; [] if unknown."""
        if not pc or not shutil.which("addr2line"):
            return []
        if pc not in self._lines:
            result = subprocess.run(["addr2line", "-i", "-e", str(self.path), hex(pc)], capture_output=True, text=True)
            found = re.findall(r"([^/\s]+):(\d+)", result.stdout)
            self._lines[pc] = [f"{name}:{line}" for name, line in found if name != "glue.cpp"]
        return self._lines[pc]

    def line(self, pc: int) -> int | None:
        """The innermost line of the kernel text itself at an image offset."""
        for frame in self.frames(pc):
            name, _, line = frame.partition(":")
            if name == "kernel.cu":
                return int(line)
        return None


_loaded: dict[str, _Loaded] = {}


def _kept(library: Path) -> bool:
    """Whether a library is there; it was used now."""
    try:
        os.utime(library.with_suffix(".json"))
        os.utime(library)
    except FileNotFoundError:
        return False
    return True


class _Request:
    """What a Module is made of, and where its library is kept."""

    def __init__(
        self,
        source: str,
        include_dirs: Sequence[str | os.PathLike[str]],
        options: Sequence[str],
        names: Sequence[str],
        check: bool,
        opt: str | None,
    ) -> None:
        self.options = _parse_options(options)
        self.folders = [os.path.abspath(d) for d in [*include_dirs, *self.options.include_dirs]]
        includes = find_includes(source, self.folders)
        self.half = bool(includes.outside & {"cuda_fp16.h", "cuda_bf16.h"})
        self.flags = _flags(check, opt or ("-O1" if check else "-O2"), self.options)
        self.includes, self.check = includes, check
        parts = [harness_digest(), source, includes.digest(), self.options.prelude, *names, "", *self.flags]
        self.key = hashlib.sha256("\0".join([*parts, str(self.half)]).encode()).hexdigest()[:24]
        self.unit = _Unit(source, tuple(names), cache_dir() / f"kernel-{self.key}.so")

    def build(self, others: Sequence[_Request] = ()) -> None:
        """Makes the library, and those of others that are compiled in the same way."""
        units = [self.unit, *(o.unit for o in others)]
        _build(units, self.options, self.folders, self.flags, self.half, self.check)

    @property
    def company(self) -> tuple[Any, ...]:
        """What is equal in texts that can be compiled as one: they say, too, whether what they include orders memory."""
        alone = not self.unit.names or "#define" in self.unit.source
        fenced = any(orders_memory(text) for text in self.includes.files.values())
        return self.flags, self.options, tuple(self.folders), fenced, self.half, self.key if alone else ""


TOGETHER = 16  #: texts that are compiled as one, at most


class Module:
    """Kernels compiled for the CPU. ``module[name]`` is a Kernel to launch.

    options: as for NVRTC (-D, -U, -I, -std; those of code generation are ignored). names: name
    expressions of the kernels wanted, needed for templates; all others are found by themselves.
    check=False: no checks and no figures, several times faster; only for kernels that have passed.
    opt: the level of optimisation; above the default -O1 accesses may be merged or dropped.
    Raises CompileError. Libraries are cached by content, so the same text compiles once.
    """

    def __init__(
        self,
        source: str,
        include_dirs: Sequence[str | os.PathLike[str]] = (),
        options: Sequence[str] = (),
        names: Sequence[str] = (),
        check: bool = True,
        *,
        opt: str | None = None,
    ) -> None:
        request = _Request(source, include_dirs, options, names, check, opt)
        self.source = source
        self.check = check
        self.path = request.unit.library
        if request.key not in _loaded:
            runtime()
            if not _kept(self.path):
                request.build()
            _loaded[request.key] = _Loaded(self.path, check)
        self.loaded = _loaded[request.key]
        self.names = self.loaded.names
        self._kernels: dict[str, Kernel] = {}

    @staticmethod
    def prepare(
        texts: Sequence[tuple[str, Sequence[str]]],
        include_dirs: Sequence[str | os.PathLike[str]] = (),
        options: Sequence[str] = (),
        check: bool = True,
    ) -> int:
        """Compiles what Modules of many (text, names) will need, several texts at a time: less than half of the time.

        Returns how many libraries were made. Texts with names of their own go together; one that does not compile is left
        to its Module, which says what is wrong.
        """
        groups: dict[tuple[Any, ...], dict[tuple[str, ...], _Request]] = {}
        for source, names in texts:
            request = _Request(source, include_dirs, options, names, check, None)
            if request.key not in _loaded and not _kept(request.unit.library):
                groups.setdefault(request.company, {}).setdefault(request.unit.names, request)
        made = 0
        for group in groups.values():
            requests = list(group.values())
            for k in range(0, len(requests), TOGETHER):
                first, *others = requests[k : k + TOGETHER]
                with contextlib.suppress(CompileError):
                    first.build(others)
                    made += 1 + len(others)
        return made

    def __getitem__(self, name: str) -> Kernel:
        """The kernel of that name or name expression. Raises KeyError."""
        if name not in self._kernels:
            if name not in self.names:
                raise KeyError(f"no kernel {name!r}; there are {', '.join(self.names) or 'none'}")
            self._kernels[name] = Kernel(self, self.names.index(name))
        return self._kernels[name]
