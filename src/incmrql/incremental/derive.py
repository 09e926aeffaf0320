"""The program of a query: its one group-by taken apart into node and answer.

    cMap(F, groupBy(cMap(row -> pairs, scan)))

Aggregates of the group are what F asks of it.  Each is a sum over the group's values (factoring:
F(k, s) = F'(k, e1(s), ..., en(s)) with every ei a homomorphism to a group), so the node keeps
the sums and F' answers.  Other shapes are refused here until their nodes are built.
"""

from __future__ import annotations

from collections.abc import Sequence

from incmrql.algebra.optimize import normal_form
from incmrql.algebra.rows import Names
from incmrql.algebra.show import show_query
from incmrql.algebra.term import CMap, GroupBy, Query, Scan, Term, element, pair
from incmrql.algebra.translate import translate
from incmrql.algebra.walk import variables_of
from incmrql.diagnostics import DataError, Diagnostic, QueryError, Span
from incmrql.incremental.factor import Factored, NotYet, factor
from incmrql.incremental.program import Answer, Fold, Linear, Program, Stream
from incmrql.reference import Environment, new_world
from incmrql.types import typed
from incmrql.types.model import Collection, Tuple, Type


def program_of(item: typed.ScriptItem, script: typed.Script, arguments: Sequence[str]) -> Program:
    """The program of an item of a script; may raise `QueryError`."""
    query, _ = normal_form(translate(item.expr, script))
    return derive(query, script, arguments, item.span)


def derive(query: Query, script: typed.Script, arguments: Sequence[str], span: Span) -> Program:
    """The program that keeps the answer of a query in normal form; may raise `QueryError`."""
    try:
        return _derived(query, script, arguments)
    except NotYet as problem:
        hint = "Without incr the query is answered from all the data at once."
        where = problem.span if problem.span.text else span
        message = f"{problem.what} cannot be kept up to date yet"
        raise QueryError(Diagnostic("A101", message, where, "not incremental", hint)) from None


def _derived(query: Query, script: typed.Script, arguments: Sequence[str]) -> Program:
    names = Names(max((variable.number for variable in variables_of(query)), default=0))
    answer, inner = _shape(query)
    scan = inner.source
    assert isinstance(scan, Scan)
    key_type, value_type = pair(inner)
    keys = tuple(names.variable(f"k{i}", t) for i, t in enumerate(_parts(key_type)))
    value = names.variable("value", value_type)
    factored = factor(answer, keys, value, names)
    return Program(
        _stream(scan, script, arguments),
        Linear(inner.variable, inner.body, value, factored.columns),
        _fold(keys, factored),
        Answer(keys, factored.results, factored.body, _element(answer.body.type)),
        show_query(query),
        script,
    )


def _shape(query: Query) -> tuple[CMap, CMap]:
    """The map above the group-by and the one below it."""
    if len(query.parts) != 1 or not isinstance(query.result, typed.Var):
        raise NotYet("a query that is not one select over one stream")
    match query.parts[0][1]:
        case CMap(_, _, GroupBy(CMap(_, _, Scan()) as inner)) as answer:
            return answer, inner
        case term:
            raise NotYet(_what(term))


def _what(term: Term) -> str:
    """What there is instead of a select with a group-by, in plain words."""
    return {
        "CMap": "a query without a group-by, or with more than one",
        "Sort": "order by",
        "Repeat": "repeat",
        "CoGroup": "a join",
    }.get(type(term).__name__, "this form of query")


def _parts(key: Type) -> tuple[Type, ...]:
    """The types of the columns that hold a key."""
    return key.items if isinstance(key, Tuple) and key.items else (key,)


def _fold(keys: tuple[typed.Variable, ...], factored: Factored) -> Fold:
    types = tuple(key.type for key in keys)
    return Fold("fold", types, factored.accumulators, factored.aggregates)


def _stream(scan: Scan, script: typed.Script, arguments: Sequence[str]) -> Stream:
    source = scan.source
    if not source.streaming:
        raise NotYet("a query over a source that does not change")
    if source.host is not None or source.path is None or source.format in ("python", "registered"):
        raise NotYet(f"a stream of format {source.format} that is not a folder of files")
    world = new_world(script, arguments=list(arguments))
    path = world.evaluate(source.path, Environment(world))
    if path is None:
        hint = "args[i] is null where there is no such argument."
        raise DataError("R207", "the path of a source is null", hint=hint)
    options = dict(source.options)
    deletes = options.get("deletes")
    can_delete = deletes is not None or "sign" in options
    ledger = can_delete and not options.get("trusted_deletes")
    return Stream(source, element(scan), path, deletes, ledger)


def _element(type_: Type) -> Type:
    assert isinstance(type_, Collection)
    return type_.element
