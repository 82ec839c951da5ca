"""Functions of numbers. A function gives null outside its domain: sqrt(-1), ln(0), mod(1, 0)."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types as pt

from windrow.expr.arguments import Argument
from windrow.expr.arithmetic import arithmetic, negated
from windrow.expr.casts import cast
from windrow.expr.comparison import unified
from windrow.expr.values import Value

_DOUBLE = pa.float64()


def _abs(x: Argument) -> Value:
    if pt.is_duration(x.type):
        return pc.cast(_abs_integer(pc.cast(x.value, pa.int64())), x.type)
    return _abs_integer(x.number()) if pt.is_integer(x.type) else pc.abs(x.number())


def _abs_integer(value: Value) -> Value:
    """The absolute value as int64; null for the smallest int64, whose negation overflows."""
    minus = negated(cast(value, pa.int64())) if pt.is_signed_integer(value.type) else value
    return value if minus is value else pc.if_else(pc.less(value, 0), minus, cast(value, pa.int64()))


def _rounding(call: Callable[..., Value]) -> Callable[[Argument], Value]:
    return lambda x: x.value if pt.is_integer(x.type) else call(x.number())


def _round(x: Argument, digits: Argument | None = None) -> Value:
    places = 0 if digits is None else digits.constant_int()
    if pt.is_integer(x.type) and places >= 0:
        return x.value
    return pc.round(x.number(), ndigits=places, round_mode="half_towards_infinity")


def _real(
    call: Callable[..., Value], outside: Callable[..., Value] | None = None
) -> Callable[[Argument], Value]:
    """A function of a double that is null where `outside(x, 0)` holds."""

    def apply(x: Argument) -> Value:
        value = cast(x.number(), _DOUBLE)
        if outside is not None:
            value = pc.if_else(outside(value, 0.0), pa.scalar(None, _DOUBLE), value)
        return call(value)

    return apply


_ln = _real(pc.ln, outside=pc.less_equal)


def _log(x: Argument, of: Argument | None = None) -> Value:
    """log(x) is the natural logarithm, log(base, x) the logarithm to a base, as in Spark."""
    return _ln(x) if of is None else arithmetic("/", _ln(of), _ln(x))


def _power(base: Argument, exponent: Argument) -> Value:
    return pc.power(cast(base.number(), _DOUBLE), cast(exponent.number(), _DOUBLE))


def _isnan(x: Argument) -> Value:
    """False for null, as in Spark."""
    return pc.coalesce(pc.is_nan(cast(x.number(), _DOUBLE)), pa.scalar(False))


def _nanvl(x: Argument, instead: Argument) -> Value:
    """The first value; the second if that is NaN."""
    return pc.if_else(_isnan(x), cast(instead.number(), _DOUBLE), cast(x.number(), _DOUBLE))


def _extreme(call: Callable[..., Value]) -> Callable[..., Value]:
    """Ignores nulls; null only if all values are null."""
    return lambda first, *others: call(*unified((first, *others), first.function))


NUMBERS: dict[str, Callable[..., Value]] = {
    "abs": _abs,
    "round": _round,
    "floor": _rounding(pc.floor),
    "ceil": _rounding(pc.ceil),
    "ceiling": _rounding(pc.ceil),
    "sqrt": _real(pc.sqrt, outside=pc.less),
    "exp": _real(pc.exp),
    "ln": _ln,
    "log": _log,
    "log10": _real(pc.log10, outside=pc.less_equal),
    "log2": _real(pc.log2, outside=pc.less_equal),
    "sin": _real(pc.sin),
    "cos": _real(pc.cos),
    "power": _power,
    "pow": _power,
    "mod": lambda x, y: arithmetic("%", x.number(), y.number()),
    "sign": lambda x: cast(pc.sign(x.number()), pa.int64()),
    "isnan": _isnan,
    "nanvl": _nanvl,
    "greatest": _extreme(pc.max_element_wise),
    "least": _extreme(pc.min_element_wise),
}
