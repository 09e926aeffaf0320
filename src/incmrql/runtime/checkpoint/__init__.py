"""The checkpoint: the directory from which a stopped or killed program resumes.

* `manifests` has the format, the order of a commit and the guarantee of a single writer.
* `program` describes the program whose state it is, and compiles that again; `compatibility`
  compares it with a new program, `rewrite` changes answers and buckets.
* `rollback` goes back to an earlier batch, `copy` copies what is needed to go on elsewhere.
* `files` checks before a commit that the files of a batch can be read.
* `lock` and `ownership` say who writes to a checkpoint, and whose it is.

Start with `manifests`.
"""
