"""What tells two formulas apart that math-verify calls equal: it compares with an absolute tolerance.

Exact values are compared by their quotient to `DIGITS` digits, so 1/2^99 is not 1/2^98 and no sign is lost; a decimal
has a relative error of `FLOAT_ERROR`. Formulas with unknowns are compared at two rational points. What cannot be
evaluated is not told apart.
"""

from typing import Any

DIGITS = 60
EXACT_ERROR = 1e-40
FLOAT_ERROR = 1e-9
_POINTS = ((3, 7), (11, 5))


def told_apart(one: Any, other: Any) -> bool:
    """Whether two values of sympy differ: numbers, formulas; sets, tuples, intervals and matrices by their parts."""
    from sympy import Basic, Eq, FiniteSet, Interval, MatrixBase, Set, Tuple
    from sympy.core.relational import Relational

    one, other = (value.rhs if isinstance(value, Eq) and value.lhs.is_Symbol else value for value in (one, other))
    parts = [[*value.flat(), value.shape] if isinstance(value, MatrixBase)
             else [value.start, value.end] if isinstance(value, Interval)
             else list(value.args) if isinstance(value, FiniteSet | Tuple) else None for value in (one, other)]
    if parts[0] is not None and parts[1] is not None:
        if any(isinstance(value, FiniteSet) for value in (one, other)):
            return not all(any(not told_apart(part, another) for another in parts[1]) for part in parts[0])
        return len(parts[0]) != len(parts[1]) or any(map(told_apart, parts[0], parts[1]))
    if any(isinstance(value, Set | Tuple | MatrixBase | Relational) or not isinstance(value, Basic)
           for value in (one, other)):
        return False
    return _differ(one, other)


def _differ(one: Any, other: Any) -> bool:
    from sympy import Float, Rational

    try:
        one, other = one.doit(), other.doit()
        limit = FLOAT_ERROR if one.has(Float) or other.has(Float) else EXACT_ERROR
        unknowns = sorted(one.free_symbols | other.free_symbols, key=str)
        for top, bottom in _POINTS if unknowns else _POINTS[:1]:
            at = {unknown: Rational(top + place, bottom) for place, unknown in enumerate(unknowns)}
            first, second = (value.subs(at).evalf(DIGITS) for value in (one, other))
            if first.is_zero or second.is_zero:
                return bool(first.is_zero) != bool(second.is_zero)
            if abs(complex((first / second - 1).evalf(DIGITS))) > limit:
                return True
    except (TypeError, ValueError, ArithmeticError, AttributeError, NotImplementedError):
        return False
    return False
