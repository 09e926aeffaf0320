"""The typed tree: a script with every name resolved and every conversion written out.

Each expression has its type.  Variables are numbered: no two binders share one, so nothing
can be captured.  Wherever a value is converted, there is a `Widen` (which cannot fail) or a
`Cast` (null when it fails) in the tree, so all operands of an operator have one type.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any as AnyValue
from typing import Literal, TypeAlias

from incmrql.errors import NOWHERE, Span
from incmrql.syntax.ast import Step
from incmrql.types.model import Constructor, Type

# --- Nodes and variables ---


@dataclass(frozen=True, slots=True)
class Variable:
    """A variable; the number distinguishes variables of the same name."""

    name: str
    number: int
    type: Type

    def __hash__(self) -> int:
        """Of the number alone: the type of a row may be large, and variables are hashed often."""
        return self.number


class Facts:
    """What `types.walk` remembers of a node; no part of its value."""

    __slots__ = ("bound", "used")
    bound: frozenset[Variable]
    used: frozenset[Variable]


@dataclass(frozen=True, slots=True)
class Node(Facts):
    """Base class of all expressions."""

    type: Type = field(kw_only=True)
    span: Span = field(default=NOWHERE, compare=False, repr=False, kw_only=True)


# --- Patterns ---


@dataclass(frozen=True, slots=True)
class Bind:
    """Matches anything, null too, and names it."""

    variable: Variable


@dataclass(frozen=True, slots=True)
class Anything:
    """Matches anything."""


@dataclass(frozen=True, slots=True)
class Equals:
    """Matches the values identical to this constant (already in the subject's type)."""

    value: AnyValue
    subject: Type
    """The type in which the two are compared."""


@dataclass(frozen=True, slots=True)
class TupleOf:
    """Matches a tuple, component by component; not null."""

    items: tuple[Pattern, ...]


@dataclass(frozen=True, slots=True)
class ListOf:
    """Matches a list of exactly this length; not null."""

    items: tuple[Pattern, ...]


@dataclass(frozen=True, slots=True)
class DataOf:
    """Matches values of this constructor whose content matches."""

    constructor: Constructor
    content: Pattern


@dataclass(frozen=True, slots=True)
class Fields:
    """Matches a record by some of its fields; not null."""

    fields: tuple[tuple[str, Pattern], ...]


@dataclass(frozen=True, slots=True)
class Members:
    """Matches a bag of pairs (name, value) that has all these names, and maybe others."""

    members: tuple[tuple[str, Pattern], ...]


@dataclass(frozen=True, slots=True)
class ReadAs:
    """Matches values that can be cast from `source` to `target` and then match the pattern.

    Null is cast to null; a value that is not null and fails to convert does not match.
    """

    pattern: Pattern
    source: Type
    target: Type


Pattern: TypeAlias = (
    Bind | Anything | Equals | TupleOf | ListOf | DataOf | Fields | Members | ReadAs
)


# --- Constants, constructors and operators ---


ArithmeticOp: TypeAlias = Literal["+", "-", "*", "/", "%"]
CompareOp: TypeAlias = Literal["=", "<>", "<", "<=", ">", ">="]
CombineOp: TypeAlias = Literal["union", "intersect", "except"]
Mode: TypeAlias = Literal["total", "ansi", "try", "legacy"]
"""How an operation is computed, and what it means that it has no result.

`total` is the language's own: null.  The others are Spark's evaluation modes, in which numbers
have Spark's widths and roundings: an operation without a result is null in all of them, and in
`ansi` mode `algebra.failures` watches it.  In `legacy` mode integers wrap instead.
"""


@dataclass(frozen=True, slots=True)
class Const(Node):
    """A constant."""

    value: AnyValue


@dataclass(frozen=True, slots=True)
class Var(Node):
    """A bound variable."""

    variable: Variable


@dataclass(frozen=True, slots=True)
class Global(Node):
    """A named query, evaluated where it is used; `key` finds it in `Script.queries`."""

    key: str


@dataclass(frozen=True, slots=True)
class Stored(Node):
    """A value that a `store x := …` item has stored; `key` is the key of the item."""

    key: str


@dataclass(frozen=True, slots=True)
class ScriptArguments(Node):
    """`args`: the arguments after the script's name on the command line."""


@dataclass(frozen=True, slots=True)
class Read(Node):
    """The rows of a source."""

    source: Source


@dataclass(frozen=True, slots=True)
class MakeTuple(Node):
    """A tuple."""

    items: tuple[Expr, ...]


@dataclass(frozen=True, slots=True)
class MakeRecord(Node):
    """A record; the names are those of its type."""

    items: tuple[Expr, ...]


@dataclass(frozen=True, slots=True)
class MakeCollection(Node):
    """A bag or a list of these elements, depending on the type."""

    items: tuple[Expr, ...]


@dataclass(frozen=True, slots=True)
class MakeData(Node):
    """A constructor applied to its content."""

    constructor: Constructor
    content: Expr


@dataclass(frozen=True, slots=True)
class Concat(Node):
    """Several lists concatenated (children of a template)."""

    parts: tuple[Expr, ...]


@dataclass(frozen=True, slots=True)
class RangeOf(Node):
    """The longs from `first` to `last`, both included; a list, or a bag if distributed."""

    first: Expr
    last: Expr


@dataclass(frozen=True, slots=True)
class Arithmetic(Node):
    """`+ - * / %` on two operands of the node's kind (int, long, double or decimal)."""

    op: ArithmeticOp
    left: Expr
    right: Expr
    mode: Mode = "total"


@dataclass(frozen=True, slots=True)
class Negate(Node):
    """`-e`."""

    operand: Expr
    mode: Mode = "total"


@dataclass(frozen=True, slots=True)
class Compare(Node):
    """`= <> < <= > >=` on two operands of one type."""

    op: CompareOp
    left: Expr
    right: Expr


@dataclass(frozen=True, slots=True)
class Logic(Node):
    """`and`, `or`, three-valued."""

    op: Literal["and", "or"]
    left: Expr
    right: Expr


@dataclass(frozen=True, slots=True)
class Not(Node):
    """`not e`, three-valued."""

    operand: Expr


@dataclass(frozen=True, slots=True)
class IsNull(Node):
    """Whether a value is null; never null itself."""

    operand: Expr


@dataclass(frozen=True, slots=True)
class Exists(Node):
    """Whether a collection has an element."""

    operand: Expr


@dataclass(frozen=True, slots=True)
class Combine(Node):
    """`union intersect except` of two bags, by multiplicity."""

    op: CombineOp
    left: Expr
    right: Expr


@dataclass(frozen=True, slots=True)
class Widen(Node):
    """The operand in the node's type; never fails."""

    operand: Expr


@dataclass(frozen=True, slots=True)
class Cast(Node):
    """The operand in the node's type, or null where it cannot be."""

    operand: Expr
    mode: Mode = "total"


# --- Sources ---


@dataclass(frozen=True, slots=True)
class ComputedColumn:
    """A column that Spark computes for each inserted row.

    `text` tells columns apart, in any run; `shown` is a short form of it.
    """

    text: str
    shown: str


@dataclass(frozen=True, slots=True)
class SparkReader:
    """A reader of Spark: what Spark reads with it from these paths is what the source means.

    The paths are patterns of Hadoop, where a backslash takes a character as it is.
    `schema` is the JSON of a `StructType`: the columns in files, then those of partition
    directories, of which `partitions` has the names.  `columns` are the names in the order of a
    row.  `settings` are those of the session that change what the reader reads.
    """

    format: str
    paths: tuple[str, ...]
    schema: str
    columns: tuple[str, ...]
    partitions: tuple[str, ...] = ()
    options: tuple[tuple[str, str], ...] = ()
    settings: tuple[tuple[str, str], ...] = ()
    computed: tuple[ComputedColumn, ...] = ()
    """The last columns of a row, which are computed when it is inserted and then kept."""

    def option(self, name: str) -> str | None:
        """The value of an option, whose name may be in any case, or None."""
        return next((value for key, value in self.options if key.lower() == name.lower()), None)


@dataclass(frozen=True, slots=True)
class Source:
    """A source or stream.

    `format` is line, json, xml, text, binary, python (a declared parser), spark (read by `reader`)
    or registered.  `path` is the path of the files, or the registered name.  `row` is the type of
    the rows in the file, including columns of type any, which are skipped; the type of the `Read`
    node is the type of the rows that are read.  `options` has the named arguments, by name.
    """

    format: str
    streaming: bool
    path: Expr | None
    row: Type
    delimiter: str = ","
    keys: tuple[str, ...] = ()
    """JSON: the members to read.  XML: the tags."""
    steps: tuple[Step, ...] = ()
    host: Expr | None = None
    port: Expr | None = None
    parser: str = ""
    name: str = ""
    options: tuple[tuple[str, AnyValue], ...] = ()
    reader: SparkReader | None = None


# --- Taking values apart ---


@dataclass(frozen=True, slots=True)
class Field(Node):
    """A field of a record."""

    subject: Expr
    name: str


@dataclass(frozen=True, slots=True)
class Item(Node):
    """A component of a tuple, from 0."""

    subject: Expr
    index: int


@dataclass(frozen=True, slots=True)
class Navigate(Node):
    """A step into a tree (XML, JSON or any), or a lookup by name.

    `children`: XML children with this tag, `*` all elements: a list.  `attribute`: the value of
    this XML attribute or null.  `attributes`: all of them, a bag of pairs.  `member`: the member
    of a JSON object, or null.  `dynamic`: decided at run time, for a value of type any.
    """

    kind: Literal["children", "attribute", "attributes", "member", "dynamic"]
    subject: Expr
    name: str


@dataclass(frozen=True, slots=True)
class At(Node):
    """`e[i]`: an element of a list or JSON array (negative from the end), or null."""

    subject: Expr
    index: Expr


@dataclass(frozen=True, slots=True)
class LookUp(Node):
    """The value for a key in a collection of pairs, or null; the least if there are several."""

    subject: Expr
    key: Expr


@dataclass(frozen=True, slots=True)
class SliceOf(Node):
    """`e[i:j]` of a list, both ends included."""

    subject: Expr
    first: Expr
    last: Expr


@dataclass(frozen=True, slots=True)
class MapOver(Node):
    """`body` for every element; with `flatten`, the elements of every body's collection."""

    variable: Variable
    subject: Expr
    body: Expr
    flatten: bool


# --- Conditionals, loops and calls ---


@dataclass(frozen=True, slots=True)
class If(Node):
    """`then` where the condition is true, `otherwise` where it is false or null."""

    condition: Expr
    then: Expr
    otherwise: Expr


@dataclass(frozen=True, slots=True)
class Branch:
    """A pattern, and the expression that is evaluated if it matches."""

    pattern: Pattern
    body: Expr


@dataclass(frozen=True, slots=True)
class Case(Node):
    """The body of the first branch whose pattern matches, else null.  `let` is a case too."""

    subject: Expr
    branches: tuple[Branch, ...]


@dataclass(frozen=True, slots=True)
class Repeat(Node):
    """A loop over several variables at once.

    `initial` and `step` have one expression a variable.  A flagged variable's step yields pairs
    (row, bool); the loop ends when no row of a flagged variable has the flag true, when nothing
    changes (no flags, no limit), or after `limit` steps.  The value of the node is that of the
    variable, or the tuple of all of them.
    """

    variables: tuple[Variable, ...]
    initial: tuple[Expr, ...]
    step: tuple[Expr, ...]
    flagged: tuple[bool, ...]
    limit: Expr | None


@dataclass(frozen=True, slots=True)
class Trace(Node):
    """The operand; evaluation also prints its text and value."""

    operand: Expr
    text: str


@dataclass(frozen=True, slots=True)
class Call(Node):
    """A function that the script declares, found in `Script.functions`."""

    function: str
    arguments: tuple[Expr, ...]


@dataclass(frozen=True, slots=True)
class PythonCall(Node):
    """An imported Python function, found in `Script.python`."""

    function: str
    arguments: tuple[Expr, ...]


@dataclass(frozen=True, slots=True)
class Builtin(Node):
    """A built-in that is not an aggregate, its arguments in the types of its signature."""

    function: str
    arguments: tuple[Expr, ...]
    mode: Mode = "total"


@dataclass(frozen=True, slots=True)
class Aggregate(Node):
    """`count sum avg …` over a collection; `extra` is the second argument of `percentile`.

    Rewrite rules add `sum#part`, `sum#total` and `avg#total` (`reference.aggregates`).
    """

    function: str
    operand: Expr
    extra: Expr | None = None


@dataclass(frozen=True, slots=True)
class UserAggregate(Node):
    """A user aggregation, found in `Script.aggregations`."""

    aggregation: str
    operand: Expr


@dataclass(frozen=True, slots=True)
class Fold(Node):
    """`function(accumulator, element)` over a collection, in its (or the canonical) order."""

    function: Lambda
    zero: Expr
    operand: Expr


@dataclass(frozen=True, slots=True)
class Lambda:
    """A function without a name."""

    parameters: tuple[Variable, ...]
    body: Expr


# --- Queries and the union of expressions ---


@dataclass(frozen=True, slots=True)
class Generator:
    """The pattern ranges over the elements of the domain."""

    pattern: Pattern
    domain: Expr


@dataclass(frozen=True, slots=True)
class Binding:
    """The pattern is matched with one value."""

    pattern: Pattern
    value: Expr


@dataclass(frozen=True, slots=True)
class Condition:
    """Drops rows for which this is not true (from a variable used twice in patterns)."""

    condition: Expr


Qualifier: TypeAlias = Generator | Binding | Condition


@dataclass(frozen=True, slots=True)
class Group:
    """Rows that agree on all keys, by identity, form a group.

    Each key's value is matched with its pattern.  `lifted` pairs a row's variable with the
    one that holds the bag of its values over the group; `partition` holds the bag of records
    of all row variables.
    """

    keys: tuple[Expr, ...]
    patterns: tuple[Pattern, ...]
    lifted: tuple[tuple[Variable, Variable], ...]
    partition: Variable
    rows: tuple[Variable, ...]


@dataclass(frozen=True, slots=True)
class Order:
    """A sort key."""

    expr: Expr
    descending: bool


@dataclass(frozen=True, slots=True)
class Select(Node):
    """A query.  The type is a list if it is ordered, else a bag."""

    distinct: bool
    head: Expr
    qualifiers: tuple[Qualifier, ...]
    where: Expr | None
    group: Group | None
    having: Expr | None
    order: tuple[Order, ...]
    limit: Expr | None


# --- Windows ---


@dataclass(frozen=True, slots=True)
class Frame:
    """The rows around a row that a function of a window reads, from `first` to `last`.

    None is the start or the end of the partition.  In `rows` an offset counts rows; in `range` it
    is added to the value of the only sort key, and 0 stands for all rows with the same sort keys.
    Offsets go along the order: those before the row are negative.
    """

    kind: Literal["rows", "range"]
    first: AnyValue
    last: AnyValue


RankName: TypeAlias = Literal[
    "row_number", "rank", "dense_rank", "percent_rank", "cume_dist", "ntile"
]


@dataclass(frozen=True, slots=True)
class Rank:
    """The place of a row among the rows of its partition; `buckets` is the argument of ntile."""

    name: RankName
    type: Type
    buckets: int = 0


@dataclass(frozen=True, slots=True)
class Pick:
    """The value of an argument at one row of a frame, counted from 1, or from -1 at its end.

    With `skips_nulls` rows in which the argument is null do not count.  If there is no such row,
    it is the `default` of the row itself.
    """

    frame: Frame
    argument: Expr
    position: int
    skips_nulls: bool
    default: Expr

    @property
    def type(self) -> Type:
        """The type of its values."""
        return self.argument.type


@dataclass(frozen=True, slots=True)
class Total:
    """A function `result` of the values of an argument over a frame, a bag or a list in order."""

    frame: Frame
    argument: Expr
    values: Variable
    result: Expr

    @property
    def type(self) -> Type:
        """The type of its values."""
        return self.result.type


WindowFunction: TypeAlias = Rank | Pick | Total


@dataclass(frozen=True, slots=True)
class Window(Node):
    """Each row of a bag in a pair with a tuple: the values of functions over the ordered rows.

    `row` is bound in sort keys and arguments.  Rows that are equal in all sort keys are in
    canonical order.
    """

    operand: Expr
    row: Variable
    order: tuple[Order, ...]
    functions: tuple[WindowFunction, ...]


Expr: TypeAlias = (
    Const
    | Var
    | Global
    | Stored
    | ScriptArguments
    | Read
    | MakeTuple
    | MakeRecord
    | MakeCollection
    | MakeData
    | Concat
    | RangeOf
    | Arithmetic
    | Negate
    | Compare
    | Logic
    | Not
    | IsNull
    | Exists
    | Combine
    | Widen
    | Cast
    | Field
    | Item
    | Navigate
    | At
    | LookUp
    | SliceOf
    | MapOver
    | If
    | Case
    | Repeat
    | Trace
    | Call
    | PythonCall
    | Builtin
    | Aggregate
    | UserAggregate
    | Fold
    | Select
    | Window
)


# --- Items ---


@dataclass(frozen=True, slots=True)
class Function:
    """A declared function."""

    name: str
    parameters: tuple[Variable, ...]
    result: Type
    body: Expr


@dataclass(frozen=True, slots=True)
class Aggregation:
    """A user aggregation: merge two accumulators, the zero, one element as an accumulator.

    With an inverse, accumulators form a commutative group, and a merged one can be removed again.
    """

    name: str
    merge: Lambda
    zero: Expr
    unit: Lambda | None
    element: Type
    type: Type
    span: Span = field(default=NOWHERE, compare=False, repr=False)
    inverse: Lambda | None = None


@dataclass(frozen=True, slots=True)
class PythonFunction:
    """An imported function with the types that its annotations give."""

    name: str
    parameters: tuple[Type, ...]
    result: Type
    call: AnyValue = field(compare=False, repr=False)


ItemKind: TypeAlias = Literal["print", "incr", "store-value", "store", "dump", "lineage", "debug"]


@dataclass(frozen=True, slots=True)
class ScriptItem:
    """An item of a script that is executed: a print, an output or a stored value.

    `target` is the path of an output or the key of a stored value.
    """

    kind: ItemKind
    expr: Expr
    target: str = ""
    incremental: bool = False
    span: Span = field(default=NOWHERE, compare=False, repr=False)
    columns: tuple[str, ...] = field(default=(), compare=False)
    """Names for the components of a row that is a tuple, as Spark's queries have them."""
    shown_by: tuple[tuple[int, bool], ...] = field(default=(), compare=False)
    """The columns by which the rows of a bag are shown in order, and if that is descending."""


@dataclass(frozen=True, slots=True)
class Script:
    """A whole script: its items, and the declarations that they refer to."""

    items: tuple[ScriptItem, ...]
    queries: dict[str, Expr]
    functions: dict[str, Function]
    aggregations: dict[str, Aggregation]
    python: dict[str, PythonFunction]
    parsers: dict[str, AnyValue]
    data: dict[str, tuple[Constructor, ...]]
    allowed: tuple[str, ...] | None = field(default=None, compare=False, repr=False)
    """The directories and files that it may use, on every engine; None allows all."""
