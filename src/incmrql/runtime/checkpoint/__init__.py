"""The checkpoint: the directory from which a stopped or killed program resumes.

* `manifests` has the format, the order of a commit and the guarantee of a single writer.
* `program` stores what is needed to compile the program again; `changed` compares it with a new
  one, `rebuild` and `rebucket` rewrite its tables; `files` checks that they can be read.
* `lock` and `ownership` say who writes to a checkpoint, and whose it is.

Start with `manifests`.
"""
