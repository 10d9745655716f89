"""A sequence whose elements are made when they are asked for, because there may be a million of them."""

from abc import abstractmethod
from collections.abc import Sequence
from typing import TypeVar, overload

T = TypeVar("T")


class OnDemand(Sequence[T]):
    """Index, slices and iteration for whoever knows its length and makes an element by its number."""

    @abstractmethod
    def _make(self, number: int) -> T:
        """The element of a number from 0 to the length less one."""

    @overload
    def __getitem__(self, at: int) -> T: ...
    @overload
    def __getitem__(self, at: slice) -> Sequence[T]: ...
    def __getitem__(self, at: int | slice) -> T | Sequence[T]:
        if isinstance(at, slice):
            return [self._make(number) for number in range(len(self))[at]]
        return self._make(range(len(self))[at])
