"""From the text of a script to a program: the one compiler behind run, explain, check and verify.

    text -> tree -> typed tree -> terms -> normal form -> plan -> program

`compile_script` gives a `Compiled`, which holds every stage, each made once and on first use; so
does `plans` from Spark's analysed plans, and `sql` splits a script for Spark to analyse;
`combined` makes queries of both kinds one script.
`load` reads scripts, includes and Python modules (`python` reads their signatures); nothing else
here touches a disk.  `cache` remembers what a session compiled, `stages` shows a script at one
stage, and `checks` reports what is wrong with it or costly.

Start with `compiled`.
"""

from incmrql.compiler.compiled import Compiled, CompiledItem, compile_script
from incmrql.compiler.load import Imports, catalog_for, read_script

__all__ = [
    "Compiled",
    "CompiledItem",
    "Imports",
    "catalog_for",
    "compile_script",
    "read_script",
]
