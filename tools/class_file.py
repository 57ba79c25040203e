"""Reads what a class file of Java logs as an error, and what it throws: `tools/kafka_messages.py` counts them.

The bytecode is run once, from top to bottom, on a stack of texts: a text is known if it is a constant, or made of
constants by `+`, StringBuilder, String.format or formatted. What is not known is `{}`. Of branches that meet, the first
one counts.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator
from typing import Any

LOGGED, THROWN = "logged", "thrown"
_LOGGERS = ("org/slf4j/Logger", "org/apache/kafka/common/utils/LogContext")
_FORMATTED = re.compile(r"%[-\d$,.]*[sdxXfbnc]")
_ARGUMENT = re.compile(r"\[*(?:L[^;]*;|.)")
# Of constants 1 to 20 (JVMS 4.4): the size of what follows the tag; None: a text.
_SIZES = {3: 4, 4: 4, 5: 8, 6: 8, 7: 2, 8: 2, 9: 4, 10: 4, 11: 4, 12: 4, 15: 3, 16: 2, 17: 4, 18: 4, 19: 2, 20: 2}


# Opcodes from the first to before the second: bytes of operands, values that each pops, and what each pushes, in turn
# (1: a value, 2: a long or double).
_ROWS = (
    (0, 1, 0, 0, ""),
    (1, 16, 0, 0, "111111112211122"),
    (16, 17, 1, 0, "1"),
    (17, 18, 2, 0, "1"),
    (20, 21, 2, 0, "2"),
    (21, 26, 1, 0, "12121"),
    (26, 46, 0, 0, "11112222111122221111"),
    (46, 54, 0, 2, "12121111"),
    (79, 87, 0, 3, ""),
    (87, 88, 0, 1, ""),
    (96, 116, 0, 2, "1212"),
    (116, 120, 0, 1, "1212"),
    (120, 132, 0, 2, "12"),
    (132, 133, 2, 0, ""),
    (133, 148, 0, 1, "212112122121111"),
    (148, 153, 0, 2, "1"),
    (169, 170, 1, 0, ""),
    (172, 177, 0, 1, ""),
    (177, 178, 0, 0, ""),
    (188, 189, 1, 1, "1"),
    (189, 190, 2, 1, "1"),
    (190, 191, 0, 1, "1"),
    (193, 194, 2, 1, "1"),
    (194, 196, 0, 1, ""),
)
_EFFECTS = {
    first + n: (size, pops, pushes[n % len(pushes)] if pushes else "")
    for first, stop, size, pops, pushes in _ROWS
    for n in range(stop - first)
}
_LOADS = {25: None, 42: 0, 43: 1, 44: 2, 45: 3}
_STORES = {58: None, 75: 0, 76: 1, 77: 2, 78: 3}
_JUMPS = {**dict.fromkeys(range(153, 159), 1), **dict.fromkeys(range(159, 167), 2), 167: 0, 168: 0, 198: 1, 199: 1}
_ENDS = {167, 172, 173, 174, 175, 176, 177, 191, 200}


class _Value:
    """What is on the stack. text: if it is known. kind: the class, if it was made here. parts: of a StringBuilder."""

    def __init__(self, text: str | None = None, kind: str = "", *, is_wide: bool = False) -> None:
        self.text, self.kind, self.is_wide = text, kind, is_wide
        self.parts: list[str] | None = [] if "StringBuilder" in kind else None

    def words(self) -> str:
        return "{}" if self.text is None else self.text


class ClassFile:
    """One class."""

    def __init__(self, data: bytes) -> None:
        self._data, self._at = data, 8
        self._pool: list[Any] = [None]
        self._read_pool()

    def messages(self) -> Iterator[tuple[str, str]]:
        """Yield kind and template of what is logged as an error, given to a fault handler, or thrown."""
        self._at += 6
        self._at += 2 + 2 * self._u2(self._at)
        codes: list[tuple[bytes, list[int]]] = []
        for _ in range(self._next()):
            self._skip_member()
        for _ in range(self._next()):
            codes += self._code()
        self._bootstrap = [
            found for name, at, _ in self._attributes() if name == "BootstrapMethods" for found in self._bootstraps(at)
        ]
        for code, handlers in codes:
            yield from _Run(self, code, handlers).messages()

    # The constant pool.

    def _read_pool(self) -> None:
        count = self._next()
        while len(self._pool) < count:
            tag = self._data[self._at]
            self._at += 1
            if tag == 1:
                size = self._next()
                self._pool.append(self._data[self._at : self._at + size].decode("utf-8", "replace"))
                self._at += size
                continue
            self._pool.append((tag, self._at))
            self._at += _SIZES[tag]
            if tag in (5, 6):
                self._pool.append(None)

    def text(self, index: int) -> str | None:
        """Return the String or Utf8 constant; None if it is another one."""
        found = self._pool[index]
        if isinstance(found, str):
            return found
        return self.text(self._u2(found[1])) if found[0] == 8 else None

    def name(self, index: int) -> str:
        """Return the name of a class."""
        return str(self._pool[self._u2(self._pool[index][1])])

    def member(self, index: int) -> tuple[str, str, str]:
        """Return class, name and descriptor of a field or method."""
        _, at = self._pool[index]
        return self.name(self._u2(at)), *self._name_and_type(self._u2(at + 2))

    def dynamic(self, index: int) -> tuple[str, str, list[int]]:
        """Return name, descriptor and arguments of the bootstrap method of an invokedynamic."""
        _, at = self._pool[index]
        name, descriptor = self._name_and_type(self._u2(at + 2))
        return name, descriptor, self._bootstrap[self._u2(at)]

    def _name_and_type(self, index: int) -> tuple[str, str]:
        _, at = self._pool[index]
        return str(self._pool[self._u2(at)]), str(self._pool[self._u2(at + 2)])

    # Members and attributes.

    def _skip_member(self) -> None:
        self._at += 6
        list(self._attributes())

    def _attributes(self) -> Iterator[tuple[str, int, int]]:
        """Yield name, place and size of each attribute, and go behind them."""
        for _ in range(self._next()):
            name, size = str(self._pool[self._u2(self._at)]), struct.unpack_from(">I", self._data, self._at + 2)[0]
            at, self._at = self._at + 6, self._at + 6 + size
            yield name, at, size

    def _code(self) -> list[tuple[bytes, list[int]]]:
        self._at += 6
        found = []
        for name, at, _ in self._attributes():
            if name == "Code":
                size = struct.unpack_from(">I", self._data, at + 4)[0]
                table = at + 8 + size
                count = self._u2(table)
                handlers = [self._u2(table + 2 + 8 * n + 4) for n in range(count)]
                found.append((self._data[at + 8 : at + 8 + size], handlers))
        return found

    def _bootstraps(self, at: int) -> Iterator[list[int]]:
        count, at = self._u2(at), at + 2
        for _ in range(count):
            arguments = self._u2(at + 2)
            yield [self._u2(at + 4 + 2 * n) for n in range(arguments)]
            at += 4 + 2 * arguments

    def _next(self) -> int:
        self._at += 2
        return self._u2(self._at - 2)

    def _u2(self, at: int) -> int:
        return int.from_bytes(self._data[at : at + 2], "big")


class _Run:
    """One method, run once from top to bottom."""

    def __init__(self, owner: ClassFile, code: bytes, handlers: list[int]) -> None:
        self._owner, self._code = owner, code
        self._stack: list[_Value] = []
        self._locals: dict[int, _Value] = {}
        self._at_target: dict[int, list[_Value]] = {at: [_Value()] for at in handlers}

    def messages(self) -> Iterator[tuple[str, str]]:
        at, is_dead = 0, False
        while at < len(self._code):
            if is_dead or at in self._at_target:
                self._stack = list(self._at_target.get(at, [] if is_dead else self._stack))
            opcode = self._code[at]
            found, size = self._step(opcode, at)
            if found is not None:
                yield found
            is_dead = opcode in _ENDS or opcode in (170, 171)
            at += 1 + size

    def _step(self, opcode: int, at: int) -> tuple[tuple[str, str] | None, int]:
        """Do one instruction; return a message that it logs or throws, and the size of its operands."""
        operand = int.from_bytes(self._code[at + 1 : at + 3], "big")
        if opcode in _LOADS or opcode in _STORES:
            return None, self._local(opcode, at)
        if 54 <= opcode <= 78:
            self._pop()
            return None, 1 if opcode <= 58 else 0
        if opcode in _EFFECTS:
            size, pops, pushes = _EFFECTS[opcode]
            self._pop(pops)
            self._stack += [_Value(is_wide=pushes == "2")] if pushes else []
            return None, size
        if opcode in _JUMPS:
            self._pop(_JUMPS[opcode])
            self._at_target.setdefault(at + ((operand ^ 0x8000) - 0x8000), list(self._stack))
            return None, 2
        match opcode:
            case 18 | 19:
                self._stack.append(_Value(self._owner.text(self._code[at + 1] if opcode == 18 else operand)))
                return None, 1 if opcode == 18 else 2
            case 178 | 180:
                self._pop(1 if opcode == 180 else 0)
                self._stack.append(_Value(is_wide=self._owner.member(operand)[2] in "JD"))
                return None, 2
            case 179 | 181:
                self._pop(1 if opcode == 179 else 2)
                return None, 2
            case 182 | 183 | 184:
                return self._call(*self._owner.member(operand), is_static=opcode == 184), 2
            case 185:
                return self._call(*self._owner.member(operand), is_static=False), 4
            case 186:
                self._concatenate(operand)
                return None, 4
            case 187:
                self._stack.append(_Value(kind=self._owner.name(operand)))
                return None, 2
            case 191:
                thrown = self._pop()[0]
                told = thrown.kind and thrown.text is not None
                return ((THROWN, f"{thrown.kind.rpartition('/')[2]}: {thrown.text}") if told else None), 0
            case 192 | 197:
                self._pop(self._code[at + 3] if opcode == 197 else 0)
                self._stack += [_Value()] if opcode == 197 else []
                return None, 2 if opcode == 192 else 3
            case 170 | 171:
                return None, self._switch(opcode, at)
            case 196:
                return None, self._wide(at)
            case 200 | 201:
                return None, 4
            case _:
                self._shuffle(opcode)
                return None, 0

    def _local(self, opcode: int, at: int) -> int:
        loads = opcode in _LOADS
        known = (_LOADS if loads else _STORES)[opcode]
        n = self._code[at + 1] if known is None else known
        if loads:
            self._stack.append(self._locals.get(n, _Value()))
        else:
            self._locals[n] = self._pop()[0]
        return 1 if known is None else 0

    def _switch(self, opcode: int, at: int) -> int:
        self._pop()
        start = at + 1 + (-(at + 1)) % 4
        first, second = struct.unpack_from(">ii", self._code, start + 4)
        if opcode == 171:
            count, step, table = first, 8, start + 8
        else:
            count, step, table = second - first + 1, 4, start + 12
        places = [start, *(table + n * step + step - 4 for n in range(count))]
        for place in places:
            self._at_target.setdefault(at + struct.unpack_from(">i", self._code, place)[0], list(self._stack))
        return int(table + count * step - at - 1)

    def _wide(self, at: int) -> int:
        opcode = self._code[at + 1]
        if opcode == 132:
            return 5
        if opcode <= 25:
            self._stack.append(_Value(is_wide=opcode in (22, 24)))
        else:
            self._pop()
        return 3

    def _shuffle(self, opcode: int) -> None:
        """Do dup and its kin (JVMS 6.5), with values in place of slots."""
        top = self._pop()[0]
        match opcode:
            case 88:
                self._pop(0 if top.is_wide else 1)
            case 89:
                self._stack += [top, top]
            case 90 | 91:
                below = self._pop(1 if opcode == 90 or self._is_wide_on_top() else 2)
                self._stack += [top, *below, top]
            case 92 | 93 | 94:
                pair = [top] if top.is_wide else [*self._pop(), top]
                below = [] if opcode == 92 else self._pop(1 if opcode == 93 or self._is_wide_on_top() else 2)
                self._stack += [*pair, *below, *pair]
            case 95:
                self._stack += [top, *self._pop()]
            case _:
                raise ValueError(f"opcode {opcode}")

    def _is_wide_on_top(self) -> bool:
        return bool(self._stack) and self._stack[-1].is_wide

    def _pop(self, count: int = 1) -> list[_Value]:
        """Remove values, the top one last. Where the order of the code hides one, it is unknown."""
        missing = max(count - len(self._stack), 0)
        found = [_Value() for _ in range(missing)] + (
            self._stack[len(self._stack) - count + missing :] if count else []
        )
        del self._stack[len(self._stack) - count + missing :]
        return found

    def _concatenate(self, index: int) -> None:
        """Make a text as StringConcatFactory does; other dynamic calls make something unknown."""
        name, descriptor, arguments = self._owner.dynamic(index)
        values = self._pop(len(_arguments(descriptor)))
        if name != "makeConcatWithConstants":
            self._stack.append(_Value())
            return
        recipe, constants, text = self._owner.text(arguments[0]) or "", iter(arguments[1:]), ""
        given = iter(values)
        for character in recipe:
            if character == "\1":
                text += next(given).words()
            elif character == "\2":
                text += self._owner.text(next(constants)) or "{}"
            else:
                text += character
        self._stack.append(_Value(text))

    def _call(self, owner: str, name: str, descriptor: str, *, is_static: bool) -> tuple[str, str] | None:
        kinds = _arguments(descriptor)
        values = self._pop(len(kinds))
        target = _Value() if is_static else self._pop()[0]
        result = self._result(owner, name, kinds, target, values)
        if not descriptor.endswith("V"):
            self._stack.append(result or _Value(is_wide=descriptor[-2:] in (")J", ")D")))
        text = next((value.text for value, kind in zip(values, kinds, strict=True) if "String" in kind), None)
        is_logged = (owner.startswith(_LOGGERS) and name in ("error", "fatal")) or name == "handleFault"
        return (LOGGED, text) if is_logged and text is not None else None

    def _result(self, owner: str, name: str, kinds: list[str], target: _Value, values: list[_Value]) -> _Value | None:
        """Return what a call makes of texts, or None."""
        if target.parts is not None:
            if name == "append":
                target.parts.append(values[0].words())
                return target
            if name == "<init>" and kinds == ["Ljava/lang/String;"]:
                target.parts.append(values[0].words())
            return _Value("".join(target.parts)) if name == "toString" else None
        if name == "<init>":
            texts = [value.text for value, kind in zip(values, kinds, strict=True) if kind == "Ljava/lang/String;"]
            target.text = next((text for text in texts if text is not None), None)
        if owner == "java/lang/String" and name in ("format", "formatted"):
            format_ = values[0] if name == "format" and kinds[0] == "Ljava/lang/String;" else target
            return None if format_.text is None else _Value(_FORMATTED.sub("{}", format_.text))
        return None


def _arguments(descriptor: str) -> list[str]:
    return _ARGUMENT.findall(descriptor[1 : descriptor.rindex(")")])
