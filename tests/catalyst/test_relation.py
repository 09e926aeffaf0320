"""Relations: conditions stand where they can first, copies share no variable."""

from __future__ import annotations

from incmrql.algebra.rows import Names, tuple_of, var
from incmrql.catalyst.relation import Relation, over_bag
from incmrql.types import typed
from incmrql.types.model import BOOL, LONG, Tuple, bag
from incmrql.types.walk import bound_variables

NAMES = Names(0)


def source(name: str) -> typed.Expr:
    row = Tuple((LONG, LONG))
    return typed.Read(typed.Source("registered", True, None, row, name=name), type=bag(row))


def equal(left: typed.Expr, right: typed.Expr) -> typed.Expr:
    return typed.Compare("=", left, right, type=BOOL)


def both() -> Relation:
    left, right = over_bag(NAMES, source("R"), (1, 2)), over_bag(NAMES, source("S"), (3, 4))
    return Relation((*left.qualifiers, *right.qualifiers), (*left.columns, *right.columns))


def test_a_relation_over_a_source_is_the_source() -> None:
    relation = over_bag(NAMES, source("R"), (1, 2))
    assert relation.bag == source("R")
    assert relation.with_columns(reversed(relation.columns)).bag != source("R")


def test_a_condition_stands_after_what_binds_its_variables() -> None:
    relation = both()
    a, b, c, _ = relation.values
    one = typed.Const(1, type=LONG)
    whole = typed.Logic("and", equal(a, c), equal(b, one), type=BOOL)
    places = [type(q).__name__ for q in relation.where(whole).qualifiers]
    assert places == ["Generator", "Condition", "Generator", "Condition"]


def test_conditions_on_the_same_rows_keep_their_order() -> None:
    relation = both()
    a, b, _, _ = relation.values
    zero, one = typed.Const(0, type=LONG), typed.Const(1, type=LONG)
    guarded = relation.where(equal(a, zero)).where(equal(b, one))
    conditions = [q.condition for q in guarded.qualifiers if isinstance(q, typed.Condition)]
    assert conditions == [equal(a, zero), equal(b, one)]


def test_a_copy_has_variables_of_its_own() -> None:
    relation = both()
    relation = relation.where(equal(relation.values[0], relation.values[2]))
    copy = relation.with_new_variables(NAMES)
    assert copy.ids == relation.ids
    assert not bound_variables(copy.bag) & bound_variables(relation.bag)


def test_light_relations_look_at_the_rows_of_one_source() -> None:
    relation = over_bag(NAMES, source("R"), (1, 2))
    condition = equal(*relation.values)
    assert relation.where(condition).is_light
    assert not both().is_light
    assert not relation.where(typed.Exists(source("S"), type=BOOL)).is_light
    distinct = typed.Builtin("distinct", (source("R"),), type=bag(Tuple((LONG, LONG))))
    assert not over_bag(NAMES, distinct, (1, 2)).is_light


def test_a_row_of_one_column_is_a_tuple() -> None:
    row = NAMES.variable("x", LONG)
    one = Relation((typed.Binding(typed.Bind(row), typed.Const(1, type=LONG)),), ((1, var(row)),))
    assert one.row == tuple_of(var(row))
    assert one.is_single
