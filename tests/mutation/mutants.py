# SPDX-License-Identifier: Apache-2.0
"""Small faults in a template, a header or a module that writes C text, one at a time: what a slip of the hand could leave there.

A mutant is a line written differently: a comparison one off, an operator or its operands exchanged, a constant or
a condition changed, a statement or a barrier left out. Comments, directives and declarations of sizes are let be.
"""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

__all__ = ["Mutant", "mutants_of", "sample"]

_EXCHANGED = {
    **{" < ": (" <= ",), " <= ": (" < ",), " > ": (" >= ",), " >= ": (" > ",), " == ": (" != ",), " != ": (" == ",)},
    **{" + ": (" - ",), " - ": (" + ",), " * ": (" / ",), " / ": (" * ",), " % ": (" / ",)},
    **{" && ": (" || ",), " || ": (" && ",), " & ": (" | ",), " | ": (" & ",), " ^ ": (" | ",)},
    **{" << ": (" >> ",), " >> ": (" << ",), " and ": (" or ",), " or ": (" and ",)},
}
_WORDS = {
    **{"true": "false", "false": "true", "minimum": "maximum", "maximum": "minimum", "low": "high", "high": "low"},
    **{"Min": "Max", "Max": "Min", "floor": "ceil", "ceil": "floor"},
}
_OPERATOR = re.compile("|".join(f"(?={re.escape(o)})" for o in _EXCHANGED))
_WHOLE = re.compile(r"(?<![\w.{])\d+(?:LL|L|u|U)*(?![\w.])")
_REAL = re.compile(r"(?<![\w.])(?:\d+\.\d*(?:e[+-]?\d+)?|0x[\da-f.]+p[+-]?\d+)f?(?!\w)")
_PAIR = re.compile(r"\b(\w+)\(([\w.\[\]:]+), ([\w.\[\]:]+)\)")
_INLINE = re.compile(r"\bif (.+?)(?= else |\s*-?[%}]})")
#: a statement that leaves valid text behind when it is gone
_STATEMENT = re.compile(
    r"\s*(?:\{\{ [^%]*\}\}|(?:[\w:]+(?:<.*>)?\(.*\)|if \(.*\) (?:continue|return\b.*)|[\w.\[\]\->*()]+ [-+*|&^]?= .*);"
    r"|\{\{ .* \}\}(?:\[.*\])? = .*;)\s*(?://.*)?"
)
#: of modules: C text, and conditions that it depends on
_QUOTED = re.compile(r'(?<=")[^"\\]+(?=")')
_TESTED = re.compile(r"\bif (.+?)(?= else\b|:$| for\b|\])")
_LET_BE = re.compile(
    r"\s*(?:#(?:include|pragma|if|ifdef|ifndef|else|elif|endif|undef|error)\b|static_assert|//|\{%-? from|typedef)"
)
_SIZES = re.compile(r"aligned\(|alignas|HG_BOUNDS|launch_bounds|k\.bounds|pragma|0xff+u?\b")


@dataclass(frozen=True)
class Mutant:
    """A line of a file, written differently (or left out)."""

    file: str
    line: int  #: from 1
    before: str
    after: str
    what: str
    nth: int  #: which of the lines of the file that read the same, from 0

    def apply(self, text: str) -> str:
        """The file with this mutant."""
        lines = text.split("\n")
        assert lines[self.line - 1] == self.before
        lines[self.line - 1] = self.after
        return "\n".join(lines)

    @property
    def key(self) -> tuple[str, str, str, int]:
        """What identifies it while other lines come and go."""
        return self.file, self.before.strip(), self.after.strip(), self.nth


def mutants_of(file: str, text: str) -> list[Mutant]:
    """All mutants of a file, by line."""
    found: dict[tuple[int, str], Mutant] = {}
    written = _module_differently if file.endswith(".py") else _written_differently
    comment = False  # inside a comment of Jinja's of several lines, or a docstring
    seen: Counter[str] = Counter()
    for n, line in enumerate(text.split("\n"), 1):
        nth = seen[line.strip()]
        seen[line.strip()] += 1
        inside = comment
        if file.endswith(".py"):
            comment ^= line.count('"""') % 2 == 1
            inside = inside or '"""' in line
        else:
            comment = (comment or "{#" in line) and "#}" not in line
        if inside or line.lstrip().startswith("{#") or _LET_BE.match(line):
            continue
        code = line.split("//")[0].rstrip()
        for after, what in written(code):
            if after != code:
                found.setdefault((n, after.strip()), Mutant(file, n, line, after, what, nth))
    return list(found.values())


def _module_differently(code: str) -> Iterator[tuple[str, str]]:
    """The same for a line of a module: its C text is in quotes."""
    if code.lstrip().startswith(("from ", "import ", "#", "__all__")):
        return
    for text in _QUOTED.finditer(code):
        for after, what in _written_differently(text.group()):
            yield code[: text.start()] + after + code[text.end() :], what
    for test in _TESTED.finditer(code):
        yield (
            f"{code[: test.start(1)]}not ({test.group(1)}){code[test.end(1) :]}",
            "a condition of the module is negated",
        )


def _written_differently(code: str) -> Iterator[tuple[str, str]]:
    def put(start: int, end: int, new: str) -> str:
        return code[:start] + new + code[end:]

    if "template <" not in code or ";" in code:
        for m in _OPERATOR.finditer(code):
            old = next(o for o in _EXCHANGED if code.startswith(o, m.start()))
            for new in _EXCHANGED[old]:
                yield put(m.start(), m.start() + len(old), new), f"{old.strip()} is {new.strip()}"
    for m in re.finditer(r"\b\w+\b", code):
        if m.group() in _WORDS:
            yield put(m.start(), m.end(), _WORDS[m.group()]), f"{m.group()} is {_WORDS[m.group()]}"
    if not _SIZES.search(code):
        for m in _WHOLE.finditer(code):
            digits = re.match(r"\d+", m.group()).group()  # type: ignore[union-attr]
            yield put(m.start(), m.start() + len(digits), str(int(digits) + 1)), "a constant is one more"
    for m in _REAL.finditer(code):
        if set(m.group()) <= set("0.f"):
            continue  # a thousandth of nothing
        yield put(m.start(), m.end(), f"({m.group()} * 1.001f)"), "a constant is a thousandth more"
    for m in re.finditer(r" \? ", code):
        middle = _end_of_arm(code, m.end())
        if code[middle : middle + 3] == " : ":
            end = _end_of_arm(code, middle + 3)
            yield put(m.end(), end, f"{code[middle + 3 : end]} : {code[m.end() : middle]}"), "alternatives exchanged"
    for m in _PAIR.finditer(code):
        if not re.search(r"\b(?:int|Index|float|T)\b", m.group(2) + m.group(3)):
            yield put(m.start(2), m.end(3), f"{m.group(3)}, {m.group(2)}"), "operands exchanged"
    for m in _INLINE.finditer(code):
        if "{%" in code[: m.start()] or "{{" in code[: m.start()]:
            yield put(m.start(1), m.end(1), f"not ({m.group(1)})"), "a condition of the template is negated"
    for m in re.finditer(r"\b(?:if|while) \(", code):
        end = _closing(code, m.end() - 1)
        if end > 0:
            condition = code[m.end() : end]
            yield put(m.end(), end, f"!({condition})"), "a condition is negated"
            yield put(m.end(), end, "true"), "a guard is dropped"
    for m in re.finditer(r"(?<![\w!])!(?=[\w(])", code):
        yield put(m.start(), m.end(), ""), "a negation is dropped"
    for m in re.finditer(r"(?:__syncthreads|__syncwarp|hg::cluster_(?:sync|wait|arrive|arrive_relaxed))\(\);", code):
        yield put(m.start(), m.end(), ""), "a barrier is dropped"
    if _STATEMENT.fullmatch(code) and "unroll" not in code:
        yield "", "a statement is dropped"
    if re.search(r"\belse if \(", code) is None and (m := re.match(r"(\s*)if \(.*\) (?=[\w{].*;)", code)):
        yield m.group(1) + code[m.end() :], "a guard is dropped"


def _closing(code: str, at: int) -> int:
    depth = 0
    for k in range(at, len(code)):
        depth += (code[k] == "(") - (code[k] == ")")
        if not depth:
            return k
    return -1


def _end_of_arm(code: str, at: int) -> int:
    """Where an alternative of ``? :`` that begins at ``at`` ends: it may have brackets, arguments and ``? :`` of its own."""
    depth = inner = 0
    for k in range(at, len(code)):
        c = code[k]
        if c in "([{" or (c == "<" and code[k - 1 : k + 2].strip() == code[k - 1 : k + 2]):
            depth += 1
        elif c in ")]}" or (c == ">" and code[k - 1] not in " -"):
            depth -= 1
            if depth < 0:
                return k
        elif not depth and c in ";,":
            return k
        elif not depth and code.startswith((" ? ", " : "), k):
            inner += 1 if code[k + 1] == "?" else -1
            if inner < 0:
                return k
    return len(code)


def sample(mutants: list[Mutant], count: int, seed: int) -> list[Mutant]:
    """Some of the mutants of a file, the same ones for a seed (all of them where ``count`` is 0)."""
    if not count or count >= len(mutants):
        return mutants
    chosen = random.Random(f"{seed} {mutants[0].file}").sample(range(len(mutants)), count)
    return [mutants[k] for k in sorted(chosen)]
