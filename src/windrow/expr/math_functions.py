"""Functions of numbers. A function gives null outside its domain: sqrt(-1), ln(0), mod(1, 0)."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types as pt

from windrow.expr.arithmetic import arithmetic, negated
from windrow.expr.builtin import MANY, Builtin, constant_int, number, refuse
from windrow.expr.casts import cast
from windrow.expr.comparison import Operand, unified
from windrow.expr.values import Value


def _abs(operand: Operand) -> Value:
    value = operand.value
    if pt.is_duration(value.type):
        return pc.cast(_abs_integer(pc.cast(value, pa.int64())), value.type)
    value = number("abs", operand)
    return _abs_integer(value) if pt.is_integer(value.type) else pc.abs(value)


def _abs_integer(value: Value) -> Value:
    """The absolute value as int64; null for the smallest int64, whose negation overflows."""
    minus = negated(cast(value, pa.int64())) if pt.is_signed_integer(value.type) else value
    return value if minus is value else pc.if_else(pc.less(value, 0), minus, cast(value, pa.int64()))


def _rounding(name: str, call: Callable[..., Value]) -> Builtin:
    def apply(operand: Operand) -> Value:
        value = number(name, operand)
        return value if pt.is_integer(value.type) else call(value)

    return Builtin(apply)


def _round(operand: Operand, digits: Operand | None = None) -> Value:
    places = 0 if digits is None else constant_int("round", digits)
    value = number("round", operand)
    if pt.is_integer(value.type) and places >= 0:
        return value
    return pc.round(value, ndigits=places, round_mode="half_towards_infinity")


def _real(
    name: str, call: Callable[..., Value], least: float | None = None, open_end: bool = False
) -> Builtin:
    """A function of a double that is null below `least`, and also at `least` if the end is open."""

    def apply(operand: Operand) -> Value:
        value = cast(number(name, operand), pa.float64())
        if least is not None:
            outside = (pc.less_equal if open_end else pc.less)(value, least)
            value = pc.if_else(outside, pa.scalar(None, pa.float64()), value)
        return call(value)

    return Builtin(apply)


_LN = _real("ln", pc.ln, 0, open_end=True)


def _log(*operands: Operand) -> Value:
    """log(x) is the natural logarithm, log(base, x) the logarithm to a base, as in Spark."""
    if len(operands) == 1:
        return _LN.call(operands[0])
    base, x = (Operand(o.node, _LN.call(o)) for o in operands)
    return _computed("/", x, base, "log")


def _power(base: Operand, exponent: Operand) -> Value:
    return pc.power(cast(number("power", base), pa.float64()), cast(number("power", exponent), pa.float64()))


def _mod(left: Operand, right: Operand) -> Value:
    return _computed("%", left, right, "mod")


def _computed(op: str, left: Operand, right: Operand, name: str) -> Value:
    value = arithmetic(op, number(name, left), number(name, right))
    if value is None:
        raise refuse(name, left, "numbers")
    return value


def _sign(operand: Operand) -> Value:
    return cast(pc.sign(number("sign", operand)), pa.int64())


def _greatest(*operands: Operand) -> Value:
    """Ignores nulls; null only if all values are null."""
    return pc.max_element_wise(*unified(operands, "greatest"))


def _least(*operands: Operand) -> Value:
    return pc.min_element_wise(*unified(operands, "least"))


def _isnan(operand: Operand) -> Value:
    """False for null, as in Spark."""
    value = cast(number("isnan", operand), pa.float64())
    return pc.coalesce(pc.is_nan(value), pa.scalar(False))


def _nanvl(operand: Operand, other: Operand) -> Value:
    """The first value; the second if that is NaN."""
    value, instead = (cast(number("nanvl", o), pa.float64()) for o in (operand, other))
    return pc.if_else(pc.coalesce(pc.is_nan(value), pa.scalar(False)), instead, value)


NUMBERS: dict[str, Builtin] = {
    "abs": Builtin(_abs),
    "round": Builtin(_round, 1, 2),
    "floor": _rounding("floor", pc.floor),
    "ceil": _rounding("ceil", pc.ceil),
    "ceiling": _rounding("ceiling", pc.ceil),
    "sqrt": _real("sqrt", pc.sqrt, 0),
    "exp": _real("exp", pc.exp),
    "ln": _LN,
    "log": Builtin(_log, 1, 2),
    "log10": _real("log10", pc.log10, 0, open_end=True),
    "log2": _real("log2", pc.log2, 0, open_end=True),
    "sin": _real("sin", pc.sin),
    "cos": _real("cos", pc.cos),
    "power": Builtin(_power, 2, 2),
    "pow": Builtin(_power, 2, 2),
    "mod": Builtin(_mod, 2, 2),
    "sign": Builtin(_sign),
    "isnan": Builtin(_isnan),
    "nanvl": Builtin(_nanvl, 2, 2),
    "greatest": Builtin(_greatest, 1, MANY),
    "least": Builtin(_least, 1, MANY),
}
