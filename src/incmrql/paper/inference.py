"""Monoid inference: under which monoid an expression or an annotated term is a homomorphism.

    G ⊢ e : ⊕        e(x ⊎ y) = e(x) ⊕ e(y), where G says how each variable grows

The rules are the paper's, read upwards, and sound: a condition over what grows has no monoid,
nor has a loop over two bags that both grow, and what does not change is □ and stays so.

    bind      v : G(v)                        box      e : □             all in e is □
    part      e#i : ⊕i                        e : (⊕1, …, ⊕n)
    tuple     (e1, …, en) : (⊕1, …, ⊕n)       ei : ⊕i
    reduce    agg(e) : ⊕                      e : ⊎, and agg is the reduction by ⊕
    cMap      select h from v in e … : ⊎      e : ⊎, the other domains, h and conditions □
    union     e ⊎ d : ⊎                       e : ⊎, d : ⊎
    zero      {} : ⊎
    if        if c then e else d : ⊕          c : □, e : ⊕, d : ⊕
    let       case e { v: d } : ⊕             e : ⊗, G[v: ⊗] ⊢ d : ⊕

A sum is judged by its exact part (`sum#part`): rounding it to a type is left to the answer.

Annotated terms are judged by the paper's Lemma 1, which needs an assumption:

    sMap0, sMap3   ⊎             the source grows
    swap           ⊎             X : ⊎
    sMap2          ⊎             X : ⇑ ⊕, and f : ⊎ for k : □, v : ⊕
    sMap1          ⇑ ⊗           X : ⇑ ⊕, and f = {e}, e : ⊗ for k : □, v : ⊕
    groupBy        ⇑ ⊎           X : ⊎
    coGroup, mix   ⇑ (□, ⊎)      X : □, Y : ⊎
                   assumed       X : ⊎, Y : ⊎

A term over nothing that grows is □.  The paper assumes of every join that it is one to many: the
side of the one has a single row for each key, and each batch brings along the partners of its
rows.  Nothing here checks that; the tests show what breaks without.  (The paper's first version,
coGroup : ⇑ (⊎, ⊎), does not survive mix, which drops a key that has rows on one side only.)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias, assert_never, get_args

from incmrql.paper.annotated import (
    Annotated,
    CoGrouped,
    Grouped,
    KMap,
    Mix,
    SMap0,
    SMap1,
    SMap2,
    SMap3,
    Swap,
    below,
)
from incmrql.paper.form import is_growing
from incmrql.plan.monoids import (
    AND,
    BAG,
    COUNT,
    FLOATS,
    INVARIANT,
    MAX,
    MIN,
    OR,
    SUM,
    Monoid,
    keyed_map,
    product,
)
from incmrql.types import typed
from incmrql.types.model import EXACT_SUM, Collection, Record, Type
from incmrql.types.show import show_expr
from incmrql.types.walk import bound_variables, children, is_random

Rule: TypeAlias = Literal[
    "bind", "box", "part", "tuple", "reduce", "cMap", "union", "zero", "if", "let"
]
RULES: Final[tuple[Rule, ...]] = get_args(Rule)

Growth: TypeAlias = Mapping[typed.Variable, Monoid]
"""G: how each variable grows.  One that is not in it does not change."""

REDUCTIONS: Final[Mapping[str, Monoid]] = {
    "count": COUNT,
    "min": MIN,
    "max": MAX,
    "some": OR,
    "all": AND,
    "collect": BAG,
}
"""The aggregates that are reductions by a monoid as they stand."""


@dataclass(frozen=True, slots=True)
class Judgment:
    """`subject : monoid` by a rule, from premises; of an annotated term by its operator."""

    rule: str
    subject: typed.Expr | None
    """The expression; None of a term, which its operator names."""
    monoid: Monoid
    premises: tuple[Judgment, ...] = ()
    assumed: bool = False


def show_judgment(judgment: Judgment, depth: int = 0) -> str:
    """A derivation, conclusion first, premises indented under it.

    Where a part of a variable is judged, the variable's own judgment is left out.
    """
    if judgment.subject is None:
        note = "   assumed: one to many" if judgment.assumed else ""
        head = f"{judgment.rule} : {judgment.monoid}{note}"
    else:
        head = f"{show_expr(judgment.subject)} : {judgment.monoid}   by {judgment.rule}"
    lines = ["  " * depth + head]
    if judgment.rule != "part":
        lines += [show_judgment(premise, depth + 1) for premise in judgment.premises]
    return "\n".join(lines)


def judge(expr: typed.Expr, growth: Growth) -> Judgment | None:
    """The monoid of an expression and why; None if no rule gives it one."""
    place = _place(expr, growth)
    if place is not None:
        return place
    boxed = _box_rule(expr, growth)
    if boxed is not None:
        return boxed
    match expr:
        case typed.MakeTuple(items) | typed.MakeRecord(items):
            return _all(expr, items, growth)
        case typed.Aggregate(function, operand, None):
            return _reduce_rule(expr, _reduction(function, expr.type), operand, growth)
        case typed.Exists(operand):
            return _reduce_rule(expr, OR, operand, growth)
        case typed.Combine("union", left, right):
            return _bags("union", expr, (left, right), growth)
        case typed.Widen(operand):
            return _bags("cMap", expr, (operand,), growth)
        case typed.MapOver():
            return _map_rule(expr, growth)
        case typed.Select(False, head, qualifiers, where, None, None, (), None):
            return _select_rule(expr, head, qualifiers, where, growth)
        case typed.If(condition, then, otherwise):
            return _either(expr, condition, then, otherwise, growth)
        case typed.Case(subject, (typed.Branch(typed.Bind(variable), body),)):
            return _name_rule(expr, subject, variable, body, growth)
        case _:
            return None


def is_invariant(expr: typed.Expr, growth: Growth) -> bool:
    """Whether an expression reads nothing that grows, and has one value."""
    return not is_random(expr) and _reads_no_growth(expr, growth)


def _reads_no_growth(expr: typed.Expr, growth: Growth) -> bool:
    place = _place(expr, growth)
    if place is not None:
        return place.monoid == INVARIANT
    return all(_reads_no_growth(child, growth) for child in children(expr))


def _place(expr: typed.Expr, growth: Growth) -> Judgment | None:
    """A variable that grows, or a part of one: rules bind and part."""
    match expr:
        case typed.Var(variable) if variable in growth:
            return Judgment("bind", expr, growth[variable])
        case typed.Item(subject, index):
            whole = _place(subject, growth)
            return None if whole is None else _part(expr, whole, index)
        case typed.Field(subject, name) if isinstance(subject.type, Record):
            whole = _place(subject, growth)
            return None if whole is None else _part(expr, whole, subject.type.names.index(name))
        case _:
            return None


def _part(expr: typed.Expr, whole: Judgment, index: int) -> Judgment | None:
    if whole.monoid == INVARIANT:
        return Judgment("part", expr, INVARIANT, (whole,))
    if whole.monoid.parts and whole.monoid == product(*whole.monoid.parts):
        return Judgment("part", expr, whole.monoid.parts[index], (whole,))
    return None


def _box_rule(expr: typed.Expr, growth: Growth) -> Judgment | None:
    """Rule box; its premises are the parts of what grows that the expression reads."""
    if not is_invariant(expr, growth):
        return None
    return _place(expr, growth) or Judgment("box", expr, INVARIANT, tuple(_places(expr, growth)))


def _places(expr: typed.Expr, growth: Growth) -> list[Judgment]:
    place = _place(expr, growth)
    if place is not None:
        return [place]
    places = [place for child in children(expr) for place in _places(child, growth)]
    return list(dict.fromkeys(places))


def _all(expr: typed.Expr, items: Sequence[typed.Expr], growth: Growth) -> Judgment | None:
    premises = [judge(item, growth) for item in items]
    judgments = [premise for premise in premises if premise is not None]
    if len(judgments) < len(premises):
        return None
    return Judgment(
        "tuple", expr, product(*(judgment.monoid for judgment in judgments)), tuple(judgments)
    )


def _reduction(function: str, type_: Type) -> Monoid | None:
    if function == "sum#part":
        return FLOATS if type_ == EXACT_SUM else SUM
    return REDUCTIONS.get(function)


def _reduce_rule(
    expr: typed.Expr, monoid: Monoid | None, operand: typed.Expr, growth: Growth
) -> Judgment | None:
    premise = _bag(operand, growth)
    if monoid is None or premise is None:
        return None
    return Judgment("reduce", expr, monoid, (premise,))


def _bag(expr: typed.Expr, growth: Growth) -> Judgment | None:
    """A judgment that an expression is a homomorphism to bags; `{}` is one too."""
    if not is_bag(expr.type):
        return None
    if _is_empty(expr):
        return Judgment("zero", expr, BAG)
    judgment = judge(expr, growth)
    return judgment if judgment is not None and judgment.monoid == BAG else None


def _is_empty(expr: typed.Expr) -> bool:
    match expr:
        case typed.Widen(operand):
            return _is_empty(operand)
        case typed.MakeCollection(items):
            return not items
        case _:
            return False


def is_bag(type_: Type) -> bool:
    """Whether a type is that of bags."""
    return isinstance(type_, Collection) and type_.kind == "bag"


def _bags(
    rule: Rule, expr: typed.Expr, parts: Sequence[typed.Expr], growth: Growth
) -> Judgment | None:
    premises = [_bag(part, growth) for part in parts]
    judgments = tuple(premise for premise in premises if premise is not None)
    if len(judgments) < len(premises) or not is_bag(expr.type):
        return None
    return Judgment(rule, expr, BAG, judgments)


def _map_rule(expr: typed.MapOver, growth: Growth) -> Judgment | None:
    """A map over what grows with a body that does not, or the other way round."""
    if not is_bag(expr.type) or not is_bag(expr.subject.type):
        return None
    over, body = _bag(expr.subject, growth), _box_rule(expr.body, growth)
    if over is not None and body is not None:
        return Judgment("cMap", expr, BAG, (over, body))
    still = _box_rule(expr.subject, growth)
    inner = _bag(expr.body, growth) if expr.flatten else None
    if still is not None and inner is not None:
        return Judgment("cMap", expr, BAG, (still, inner))
    return None


def _select_rule(
    expr: typed.Expr,
    head: typed.Expr,
    qualifiers: Sequence[typed.Qualifier],
    where: typed.Expr | None,
    growth: Growth,
) -> Judgment | None:
    """A nested loop: exactly one of its bags grows."""
    rest = [head] if where is None else [head, where]
    rest += [q.value for q in qualifiers if isinstance(q, typed.Binding)]
    rest += [q.condition for q in qualifiers if isinstance(q, typed.Condition)]
    domains = [q.domain for q in qualifiers if isinstance(q, typed.Generator)]
    growing = [domain for domain in domains if not is_invariant(domain, growth)]
    if len(growing) != 1 or not all(is_invariant(part, growth) for part in rest):
        return None
    premise = _bag(growing[0], growth)
    if premise is None:
        return None
    others = [part for part in (*domains, *rest) if part is not growing[0]]
    boxes = [_box_rule(part, growth) for part in others if not _is_local(part, qualifiers)]
    return Judgment("cMap", expr, BAG, (premise, *(box for box in boxes if box is not None)))


def _is_local(expr: typed.Expr, qualifiers: Sequence[typed.Qualifier]) -> bool:
    """Whether an expression is over the loop's own variables only, and so needs no premise."""
    inside = bound_variables(tuple(qualifiers))
    return {node.variable for node in _variables(expr)} <= inside | bound_variables(expr)


def _variables(expr: typed.Expr) -> list[typed.Var]:
    if isinstance(expr, typed.Var):
        return [expr]
    return [variable for child in children(expr) for variable in _variables(child)]


def _either(
    expr: typed.Expr,
    condition: typed.Expr,
    then: typed.Expr,
    otherwise: typed.Expr,
    growth: Growth,
) -> Judgment | None:
    known = _box_rule(condition, growth)
    if known is None:
        return None
    bags = _bag(then, growth), _bag(otherwise, growth)
    if bags[0] is not None and bags[1] is not None:
        return Judgment("if", expr, BAG, (known, bags[0], bags[1]))
    one, other = judge(then, growth), judge(otherwise, growth)
    if one is None or other is None or one.monoid != other.monoid:
        return None
    return Judgment("if", expr, one.monoid, (known, one, other))


def _name_rule(
    expr: typed.Expr,
    subject: typed.Expr,
    variable: typed.Variable,
    body: typed.Expr,
    growth: Growth,
) -> Judgment | None:
    value = judge(subject, growth)
    if value is None:
        return None
    result = judge(body, {**growth, variable: value.monoid})
    return None if result is None else Judgment("let", expr, result.monoid, (value, result))


# --- annotated terms ------------------------------------------------------------------------------

Side: TypeAlias = Literal["left", "right"]
"""Which side of a join of two growing sides is taken to be □: the side of the one."""


class NoMonoidError(Exception):
    """An annotated term is no homomorphism by the rules: a function in it, and what is wrong."""

    def __init__(self, subject: typed.Expr, problem: str) -> None:
        super().__init__(f"{show_expr(subject)} {problem}")
        self.subject, self.problem = subject, problem


def lemma(term: Annotated, one: Side) -> Judgment:
    """The monoid of an annotated term; raises `NoMonoidError`."""
    operator = operator_of(term)
    premises = tuple(lemma(part, one) for part in below(term))
    if isinstance(term, SMap0 | SMap3):
        return Judgment(operator, None, BAG if is_growing(term.source) else INVARIANT, ())
    if all(premise.monoid == INVARIANT for premise in premises):
        return Judgment(operator, None, INVARIANT, premises)
    match term:
        case Swap():
            return Judgment(operator, None, premises[0].monoid, premises)
        case Mix():
            return Judgment(operator, None, premises[0].monoid, premises)
        case Grouped():
            return Judgment(operator, None, keyed_map(BAG), premises)
        case CoGrouped():
            sides = [premise.monoid for premise in premises]
            is_assumed = sides == [BAG, BAG]
            if is_assumed:
                sides[one == "right"] = INVARIANT
            return Judgment(operator, None, keyed_map(product(*sides)), premises, is_assumed)
        case SMap2(variable, body):
            proof = judge(body, growth_of(variable, premises[0].monoid))
            if proof is None or proof.monoid != BAG:
                raise NoMonoidError(body, _not_additive(proof))
            return Judgment(operator, None, BAG, (*premises, proof))
        case SMap1(variable, body):
            proof = _single(body, growth_of(variable, premises[0].monoid))
            if proof is None:
                raise NoMonoidError(body, "has elements that no rule gives a monoid")
            return Judgment(operator, None, keyed_map(proof.monoid), (*premises, proof))
        case KMap(body=body):
            raise NoMonoidError(body, "is not pulled out")
        case _:
            assert_never(term)


def growth_of(variable: typed.Variable, groups: Monoid) -> Growth:
    """How a variable over groups (k, v) grows: k : □, and v as the groups' values do."""
    value = INVARIANT if groups == INVARIANT else groups.parts[0]
    return {variable: product(INVARIANT, value)}


def _single(body: typed.Expr, growth: Growth) -> Judgment | None:
    """The judgment of e in {e}."""
    match body:
        case typed.MakeCollection((item,)):
            return judge(item, growth)
        case _:
            return None


def _not_additive(proof: Judgment | None) -> str:
    if proof is None:
        return "stands below a groupBy or coGroup, and no rule gives it ⊎"
    return f"stands below a groupBy or coGroup, and is {proof.monoid}, not ⊎"


def operator_of(term: Annotated) -> str:
    """The operator of an annotated term."""
    return {"Grouped": "groupBy", "CoGrouped": "coGroup"}.get(
        type(term).__name__, type(term).__name__[0].lower() + type(term).__name__[1:]
    )


def assumptions(proof: Judgment) -> int:
    """How many joins are assumed to be one to many."""
    return proof.assumed + sum(map(assumptions, proof.premises))


def is_outer(term: Annotated) -> bool:
    """Whether a function of two sides may have rows where one of them has none.

    mix drops such keys: an answer that tells of rows without partners is lost with them.
    """
    match term:
        case SMap1(variable, body, Mix()) | SMap2(variable, body, Mix()):
            for sides in ((BAG, INVARIANT), (INVARIANT, BAG)):
                proof = judge(body, growth_of(variable, keyed_map(product(*sides))))
                if proof is None or proof.monoid != BAG:
                    return True
        case _:
            pass
    return any(map(is_outer, below(term)))
