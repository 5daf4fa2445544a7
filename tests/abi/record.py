# SPDX-License-Identifier: Apache-2.0
"""Records what NVIDIA's headers say of everything in names.py, as the compiler sees it.

    python tests/abi/record.py FOLDER…

The folders are searched for headers as by ``-I``: those of the CUDA run-time, of its compiler (crt/), of CCCL, of cuBLAS
and of cuDNN, all of one version. The record, under the versions that the headers name, goes into headers.json.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parents[1])]

from names import FUNCTIONS, NO_MEMORY, STRUCTURES, UNSUPPORTED, VALUES, VERSIONS  # noqa: E402

BEGIN = r"""
#include <cstddef>
#include <cstdio>
#include <string>
#include <type_traits>
// p: a pointer; i, u, f with bytes: a signed integer or enumeration, an unsigned integer, a floating-point number
template <class T> std::string kind() {
    if (std::is_pointer<T>::value) return "p";
    const char *letter = std::is_floating_point<T>::value ? "f" : std::is_unsigned<T>::value ? "u" : "i";
    return letter + std::to_string(sizeof(T));
}
template <class F> struct Signature;
template <class R, class... A> struct Signature<R (*)(A...)> {
    static std::string text() {
        std::string all;
        for (auto k : {std::string(), kind<A>()...}) all += (all.empty() ? "" : " ") + k;
        return all + " -> " + kind<R>();
    }
};
#define FUNCTION(f) std::printf("functions\t%s\t\"%s\"\n", #f, Signature<decltype(&f)>::text().c_str())
#define VALUE(x) std::printf("values\t%s\t%lld\n", #x, (long long)(x))
#define FIELD(s, f) std::printf("structures\t%s\t%lld\n", #s "." #f, (long long)offsetof(s, f))
"""


def main(folders: list[str]) -> None:
    lines = [f"#include <{header}>" for header in FUNCTIONS] + [BEGIN, "int main() {"]
    lines += [f"VALUE({v});" for v in (*VERSIONS, *VALUES, UNSUPPORTED)]
    lines += [f"#if CUDNN_MAJOR == {major}\nVALUE({v});\n#endif" for major, v in NO_MEMORY.items()]
    lines += [f"FUNCTION({f});" for functions in FUNCTIONS.values() for f in functions]
    for name, (_, fields) in STRUCTURES.items():
        lines += [f"VALUE(sizeof({name}));", *(f"FIELD({name}, {f});" for f in sorted(fields.values()))]
    with tempfile.TemporaryDirectory() as work:
        source, program = Path(work, "abi.cpp"), Path(work, "abi")
        source.write_text("\n".join([*lines, "}"]))
        command = ["c++", "-std=c++17", "-w", *(f"-I{f}" for f in folders), str(source), "-o", str(program)]
        subprocess.run(command, check=True)
        said = subprocess.run([str(program)], check=True, capture_output=True, text=True).stdout
    found: dict[str, dict[str, object]] = {"values": {}, "functions": {}, "structures": {}}
    for line in said.splitlines():
        group, name, value = line.split("\t")
        found[group][name] = json.loads(value.replace('" ', '"'))
    cuda, cublas, cudnn = (found["values"].pop(v) for v in VERSIONS)
    file = HERE / "headers.json"
    records = json.loads(file.read_text()) if file.exists() else {}
    records[f"CUDA {cuda}, cuBLAS {cublas}, cuDNN {cudnn}"] = found
    file.write_text(json.dumps(dict(sorted(records.items())), indent=1) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
