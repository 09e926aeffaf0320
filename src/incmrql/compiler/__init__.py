"""From the text of a script to a program: the one compiler behind run, explain, check and verify.

    text -> tree -> typed tree -> terms -> normal form -> plan -> program

`compile_script` gives a `Compiled`, which holds every stage; `Compiled.items` has the stages of
each item.  A stage is made when it is first asked for, and only once.  `loading` reads scripts,
includes and Python modules, and nothing else here touches a disk; `cache` remembers what a
session compiled; `stages` shows a script at one stage; `checks` says what is wrong with it, or
costly.
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
