"""Write out names for parts of a group, so that factoring sees what each aggregate is over.

    select (sum(v), avg(v)) from v = (select y.C from y in rows where y.B > 1)
    =  (sum(select y.C ...), avg(select y.C ...))

    f(rows.C)  =  sum(rows.C) / count(rows.C), where f(v) is sum(v) / count(v)

`asking.py` factors each aggregate on its own and keeps equal accumulators once, so nothing is
computed twice.  A value that goes through pairs of rows keeps its name: it would be walked for
each use.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from incmrql.algebra.rows import Names
from incmrql.incremental.judge import Judge
from incmrql.incremental.ordering import one_side, undistinct
from incmrql.types import typed
from incmrql.types.model import Collection
from incmrql.types.walk import map_children, renamed, with_copies


@dataclass(frozen=True, slots=True)
class Views:
    """Writes out the names of what is additive in one side of a group, and calls over that."""

    judge: Judge
    names: Names
    functions: Mapping[str, typed.Function]

    def written_out(self, expr: typed.Expr, calling: frozenset[str] = frozenset()) -> typed.Expr:
        """The expression without such names; `calling` are the functions that it is inside of."""
        if not self.judge.read(expr):
            return expr
        match expr:
            case typed.Select(group=None):
                for place, each in enumerate(expr.qualifiers):
                    if isinstance(each, typed.Binding) and isinstance(each.pattern, typed.Bind):
                        value = self.written_out(each.value, calling)
                        if self._is_view(value):
                            rest = (*expr.qualifiers[:place], *expr.qualifiers[place + 1 :])
                            bound = {each.pattern.variable: value}
                            over = self._over(replace(expr, qualifiers=rest), bound)
                            return self.written_out(over, calling)
            case typed.Call(name, arguments) if name not in calling:
                values = [self.written_out(each, calling) for each in arguments]
                function = self.functions[name]
                if any(map(self._is_view, values)):
                    bound = dict(zip(function.parameters, values, strict=True))
                    over = self._over(renamed(function.body, self.names.like), bound)
                    return self.written_out(over, calling | {name})
            case _:
                pass
        return map_children(lambda child: self.written_out(child, calling), expr)

    def _is_view(self, value: typed.Expr) -> bool:
        is_collection = isinstance(value.type, Collection) and bool(self.judge.read(value))
        return is_collection and one_side(undistinct(value), self.judge) is not None

    def _over(self, expr: typed.Expr, bound: Mapping[typed.Variable, typed.Expr]) -> typed.Expr:
        for variable, value in bound.items():
            expr = with_copies(expr, variable, value, self.names.like)
        return expr
