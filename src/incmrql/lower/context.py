"""What all steps of one lowering share: the dialect, names, and what is left to Python and why."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from sqlglot import exp

from incmrql.algebra.term import Scan
from incmrql.lower import shapes, tree
from incmrql.lower.literals import constant
from incmrql.lower.shapes import Cell, Env, Hidden, Many, NotNative, Parts, Shape
from incmrql.lower.tree import Dialect
from incmrql.reference import Environment, evaluate, new_world
from incmrql.reference.environment import EMPTY_SCRIPT
from incmrql.types import typed
from incmrql.types.model import LONG, Type
from incmrql.types.walk import is_random, map_children, nodes, root_variable
from incmrql.values import Value

# --- Reasons for Python ---


def why_not(
    expr: typed.PythonCall
    | typed.Navigate
    | typed.MakeData
    | typed.Repeat
    | typed.Trace
    | typed.Read,
) -> str:
    """Why a construct has no form in SQL."""
    match expr:
        case typed.PythonCall(name):
            return f'Python function "{name}"'
        case typed.Navigate():
            return "a step into a tree"
        case typed.MakeData(constructor):
            return f"a value of data type {constructor.owner}"
        case typed.Repeat():
            return "a loop inside a row"
        case typed.Trace():
            return "trace shows values as they are met"
        case typed.Read():
            return "a source inside a row"


def name_of(expr: typed.Expr) -> str:
    """What an expression is called where it has no native form."""
    match expr:
        case typed.Builtin(function):
            return function
        case typed.Arithmetic(op) | typed.Compare(op):
            return f"{op} on {expr.type}"
        case typed.Cast(operand) | typed.Widen(operand):
            return f"conversion from {operand.type} to {expr.type}"
        case _:
            return type(expr).__name__


# --- The context ---


PYTHON_PREFIX = "python_"

Lower: TypeAlias = Callable[[typed.Expr, Env, "Context"], Shape]


@dataclass(frozen=True, slots=True)
class PythonPlace:
    """An expression that runs in Python: a function of these parameters, and why it is one."""

    name: str
    parameters: tuple[typed.Variable, ...]
    body: typed.Expr
    reason: str


@dataclass(frozen=True, slots=True)
class Window:
    """Which bits of doubles an exact sum keeps: `limbs` of 32 bits, the lowest worth 2^lowest."""

    lowest: int
    limbs: int


NARROW = Window(-96, 5)
"""From 2^-96 to 2^64: what measurements and prices need.  A value outside is noticed."""
WIDE = Window(-1088, 66)
"""All finite doubles."""


@dataclass(slots=True)
class Context:
    """The state of one lowering.

    `lower` is the lowering of expressions itself, for the modules that it is built from.
    """

    lower: Lower
    dialect: Dialect
    script: typed.Script = EMPTY_SCRIPT
    stored: dict[str, Value] = field(default_factory=dict)
    arguments: Sequence[str] = ()
    fast_sums: bool = False
    window: Window = NARROW
    size_of: Callable[[Scan], int | None] = lambda _scan: None
    """How many bytes a source has, where that is known."""
    broadcast: int = 0
    """How many bytes a side of a join may have that is sent to all tasks."""
    places: list[PythonPlace] = field(default_factory=list)
    has_evaluated: bool = False
    """Whether the values of expressions stand in the text: those may be others the next time."""
    _last: int = 0

    def fresh(self, hint: str) -> str:
        """A name that nothing else has; it needs no quotes."""
        self._last += 1
        letters = "".join([c for c in hint.lower() if c.isascii() and c.isalpha()])
        return f"{letters[:12] or 'c'}{self._last}"

    def tree(self, expr: typed.Expr, env: Env) -> exp.Expression:
        """An expression as one SQL expression."""
        return self.whole(self.lower(expr, env, self))

    def whole(self, shape: Shape) -> exp.Expression:
        """A shape as one SQL expression."""
        match shape:
            case Cell(found):
                return found
            case Parts(parts, type_):
                return shapes.struct(tuple(map(self.whole, parts)), type_, self.dialect)
            case Many(side):
                return side.collected(shape, self)
            case Hidden():
                raise NotNative("an aggregate that looks at more than its own rows")

    def calls_itself(self, name: str) -> bool:
        """Whether a function may call itself, maybe through others."""
        return name in self._called(name)

    def may_fail(self, name: str) -> bool:
        """Whether a call may never end or raise: recursion and Python functions."""
        return any(
            self.calls_itself(each) or _calls_python(self.script.functions[each].body)
            for each in {name, *self._called(name)}
        )

    def _called(self, name: str) -> set[str]:
        """The functions that one calls, directly or not."""
        found: set[str] = set()
        waiting = [name]
        while waiting:
            for node in nodes(self.script.functions[waiting.pop()].body):
                if isinstance(node, typed.Call) and node.function not in found:
                    found.add(node.function)
                    waiting.append(node.function)
        return found

    def part(self, shape: Shape, index: int) -> Shape:
        """A component or field of a shape."""
        return shapes.part(shape, index)

    def python(self, expr: typed.Expr, env: Env, reason: str) -> Cell:
        """A call of the Python function that an expression becomes.

        It is given the parts of variables that the expression uses, and nothing else.  One that
        uses none and is random is given a number, as a column tells how many rows there are.
        """
        parameters: dict[str, tuple[typed.Variable, typed.Expr]] = {}

        def abstract(part: typed.Expr) -> typed.Expr:
            variable = root_variable(part)
            if variable is not None and variable in env.values:
                known = parameters.get(repr(part))
                if known is None:
                    new = typed.Variable("p", -len(parameters) - 1, part.type)
                    known = parameters[repr(part)] = new, part
                return typed.Var(known[0], type=part.type)
            return map_children(abstract, part)

        body = abstract(expr)
        if not parameters and not is_random(body) and self.knows(body):
            return Cell(constant(self.evaluated(body), expr.type, self.dialect), expr.type)
        if not parameters and is_random(body):
            parameters[""] = typed.Variable("p", -1, LONG), typed.Const(0, type=LONG)
        given = [self.tree(part, env) for _, part in parameters.values()]
        variables = tuple(variable for variable, _ in parameters.values())
        place = self._place(variables, body, reason)
        return Cell(tree.call(place.name, *given), expr.type)

    def pinned(self, name: str, given: Sequence[Cell], type_: Type, reason: str) -> Cell:
        """A call of a Python function that all engines share."""
        variables = tuple(
            typed.Variable("p", -place, each.type) for place, each in enumerate(given, 1)
        )
        arguments = tuple(typed.Var(variable, type=variable.type) for variable in variables)
        place = self._place(variables, typed.Builtin(name, arguments, type=type_), reason)
        return Cell(tree.call(place.name, *[each.tree for each in given]), type_)

    def to_be_stored(self, key: str) -> exp.Expression:
        """A value that an item before stores, in a text that is only shown."""
        return exp.Var(this=f":{key.partition('@')[0]}")

    def knows(self, expr: typed.Expr) -> bool:
        """Whether the values that items before store are there already, as when a text is run."""
        return all(n.key in self.stored for n in nodes(expr) if isinstance(n, typed.Stored))

    def evaluated(self, expr: typed.Expr) -> Value:
        """The value of an expression that depends on no row."""
        if isinstance(expr, typed.Const):
            return expr.value
        self.has_evaluated = True
        world = new_world(self.script, arguments=list(self.arguments))
        world.stored.update(self.stored)
        return evaluate(expr, Environment(world))

    def _place(
        self, parameters: tuple[typed.Variable, ...], body: typed.Expr, reason: str
    ) -> PythonPlace:
        for known in self.places:
            if known.body == body and known.parameters == parameters:
                return known
        name = f"{PYTHON_PREFIX}{len(self.places) + 1}"
        place = PythonPlace(name, parameters, body, reason)
        self.places.append(place)
        return place


def _calls_python(expr: typed.Expr) -> bool:
    return any(isinstance(node, typed.PythonCall) for node in nodes(expr))
