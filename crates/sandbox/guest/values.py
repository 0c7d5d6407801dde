"""Encodes returned values in version 2 of the marshal format, which has exact types, integers of any size and no references.

The host compares values, so that a class cannot pretend: an instance of a subclass is sent as the plain value inside it, read with the
methods of the plain class. A value without a JSON equivalent is sent as bytes, which are not equal to anything.
"""

import marshal
from decimal import Decimal
from fractions import Fraction
from marshal import dumps

VERSION = 2
# Deeper than any JSON document that the host accepts.
DEPTH = 1000

_type, _isinstance, _str, _repr = type, isinstance, str, repr
_bool, _int, _float, _complex, _list, _tuple, _dict = bool, int, float, complex, list, tuple, dict
_PLAIN = frozenset((type(None), bool, int, float, str))
_list_iter, _tuple_iter, _dict_items = list.__iter__, tuple.__iter__, dict.items
_int_add, _float_add, _str_str = int.__add__, float.__add__, str.__str__
_TOO_DEEP = b"?too deep"


def encode(value: object) -> bytes:
    """Marshals a value. What cannot be marshalled becomes bytes that start with a question mark."""
    try:
        return dumps(value, VERSION)
    except ValueError:  # a class of the program, or nested too deeply
        return dumps(_plain(value, DEPTH), VERSION)


def _plain(value: object, depth: int) -> object:
    if _type(value) in _PLAIN:
        return value
    if depth == 0:
        return _TOO_DEEP
    kind = _type(value)
    bases = _type.mro(kind)
    if _list in bases:
        return [_plain(part, depth - 1) for part in _list_iter(value)]
    if _tuple in bases:
        return (*[_plain(part, depth - 1) for part in _tuple_iter(value)],)
    if _dict in bases:
        return {_key(key): _plain(part, depth - 1) for key, part in _dict_items(value)}
    if _int in bases:
        return _int_add(value, 0)
    if _float in bases:
        return _float_add(value, 0.0)
    if _str in bases:
        return _str_str(value)[:]
    if kind is Fraction or kind is Decimal:
        return _ratio(value)
    if kind is _complex and value.imag == 0:
        return value.real
    return b"?" + kind.__name__.encode("utf-8", "replace")[:100]


def _key(key: object) -> object:
    bases = _type.mro(_type(key))
    if _str in bases:
        return _str_str(key)[:]
    return b"?" + _type(key).__name__.encode("utf-8", "replace")[:100] + _repr(id(key)).encode()


def _ratio(value: object) -> object:
    # Equal to an int or float with the same exact value, and sent as that if there is one.
    try:
        numerator, denominator = value.as_integer_ratio()
    except (ValueError, OverflowError):  # infinite, or not a number
        return _float(value)
    if denominator == 1:
        return numerator
    nearest = numerator / denominator
    return nearest if nearest.as_integer_ratio() == (numerator, denominator) else b"?ratio"
