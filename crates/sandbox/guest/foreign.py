"""The part of `ctypes` that programs use: integers of a fixed width that wrap around, and arrays of them.

The guest has no foreign functions. Sizes are those of a 64-bit Linux.
"""

import struct as _struct


class ArgumentError(Exception):
    pass


class _Kind(type):
    def __mul__(cls, length):
        if length < 0:
            raise ValueError(f"Array length must be >= 0, not {length}")
        return _Kind(f"{cls.__name__}_Array_{length}", (Array,), {"_type_": cls, "_length_": length})

    __rmul__ = __mul__


class _CData(metaclass=_Kind):
    pass


class _SimpleCData(_CData):
    _type_ = None

    def __init__(self, value=None):
        self._value = self._zero
        if value is not None:
            self.value = value

    @property
    def value(self):
        return self._value

    @value.setter
    def value(self, value):
        self._value = self._convert(value)

    def __repr__(self):
        return f"{type(self).__name__}({self._value!r})"

    def __bool__(self):
        return bool(self._value)


class _Integer(_SimpleCData):
    _zero = 0

    @classmethod
    def _convert(cls, value):
        if not isinstance(value, int):
            raise TypeError(f"an integer is required (got type {type(value).__name__})")
        value = int(value) & cls._mask
        return value - cls._mask - 1 if cls._signed and value > cls._mask >> 1 else value


class _Float(_SimpleCData):
    _zero = 0.0

    @classmethod
    def _convert(cls, value):
        if not isinstance(value, (int, float)):
            raise TypeError(f"must be real number, not {type(value).__name__}")
        try:
            return _struct.unpack(cls._type_, _struct.pack(cls._type_, value))[0]
        except OverflowError:  # a float that a narrower one cannot hold is infinite
            return float("inf") if value > 0 else float("-inf")


class c_bool(_SimpleCData):
    _type_, _size, _zero = "?", 1, False
    _convert = staticmethod(bool)


class c_char(_SimpleCData):
    _type_, _size, _zero = "c", 1, b"\0"

    @staticmethod
    def _convert(value):
        if isinstance(value, int) and 0 <= value < 256:
            return bytes((value,))
        if isinstance(value, (bytes, bytearray)) and len(value) == 1:
            return bytes(value)
        raise TypeError("one character bytes, bytearray, or an integer in range(256) expected")


def _integer(name, code, size, signed):
    names = {"_type_": code, "_size": size, "_signed": signed, "_mask": (1 << 8 * size) - 1, "__module__": "ctypes"}
    return _Kind(name, (_Integer,), names)


c_byte, c_ubyte = _integer("c_byte", "b", 1, True), _integer("c_ubyte", "B", 1, False)
c_short, c_ushort = _integer("c_short", "h", 2, True), _integer("c_ushort", "H", 2, False)
c_int, c_uint = _integer("c_int", "i", 4, True), _integer("c_uint", "I", 4, False)
c_long, c_ulong = _integer("c_long", "l", 8, True), _integer("c_ulong", "L", 8, False)
c_int8, c_uint8, c_int16, c_uint16, c_int32, c_uint32 = c_byte, c_ubyte, c_short, c_ushort, c_int, c_uint
c_int64 = c_longlong = c_ssize_t = c_long
c_uint64 = c_ulonglong = c_size_t = c_ulong
c_float = _Kind("c_float", (_Float,), {"_type_": "f", "_size": 4, "__module__": "ctypes"})
c_double = _Kind("c_double", (_Float,), {"_type_": "d", "_size": 8, "__module__": "ctypes"})
c_longdouble = c_double


class Array(_CData):
    def __init__(self, *values):
        if len(values) > self._length_:
            raise IndexError("invalid index")
        self._values = [self._type_._zero] * self._length_
        for index, value in enumerate(values):
            self[index] = value

    def __len__(self):
        return self._length_

    def __getitem__(self, index):
        return self._values[index]

    def __setitem__(self, index, value):
        if isinstance(index, slice):
            indices = range(self._length_)[index]
            value = list(value)
            if len(value) != len(indices):
                raise ValueError("Can only assign sequence of same size")
            for at, part in zip(indices, value):
                self[at] = part
            return
        if isinstance(value, _SimpleCData):
            value = value.value
        self._values[index] = self._type_._convert(value)

    def __iter__(self):
        return iter(self._values)


def sizeof(thing):
    kind = thing if isinstance(thing, type) else type(thing)
    if not isinstance(kind, _Kind) or not hasattr(kind, "_type_"):
        raise TypeError("this type has no size")
    return sizeof(kind._type_) * kind._length_ if issubclass(kind, Array) else kind._size


def __getattr__(name):
    if name.startswith("__"):
        raise AttributeError(f"module 'ctypes' has no attribute {name!r}")
    raise ImportError(f"ctypes.{name} is not in the sandbox, which has no foreign functions")
