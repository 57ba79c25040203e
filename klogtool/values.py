"""Numbers with bounds; and values with fields that do not count in comparisons, such as where bytes are, or when a file
was seen."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, TypeAlias

from msgspec import Meta, Struct

Int: TypeAlias = Annotated[int, Meta(ge=-(1 << 31), le=(1 << 31) - 1)]  # Java's
Long: TypeAlias = Annotated[int, Meta(ge=-(1 << 63), le=(1 << 63) - 1)]  # Java's
Count: TypeAlias = Annotated[int, Meta(ge=1, le=(1 << 31) - 1)]  # an Int, at least one
Natural: TypeAlias = Annotated[int, Meta(ge=0, le=(1 << 63) - 1)]  # a size, an inode, an offset


class PartlyCompared(Struct, frozen=True, eq=False):
    """A frozen struct. Fields in `uncompared` do not count in `==` and `hash`; fields in `unshown` do not appear in
    `repr`."""

    uncompared: ClassVar[frozenset[str]] = frozenset()
    unshown: ClassVar[frozenset[str]] = frozenset()

    def _compared(self) -> tuple[Any, ...]:
        return tuple(getattr(self, name) for name in self.__struct_fields__ if name not in self.uncompared)

    def __eq__(self, other: object) -> bool:
        if type(self) is not type(other):
            return NotImplemented
        return self._compared() == other._compared()

    def __ne__(self, other: object) -> bool:  # msgspec's structs have their own, which does not use __eq__
        return not self == other

    def __hash__(self) -> int:
        return hash(self._compared())

    def __repr__(self) -> str:
        shown = (name for name in self.__struct_fields__ if name not in self.unshown)
        return f"{type(self).__name__}({', '.join(f'{name}={getattr(self, name)!r}' for name in shown)})"
