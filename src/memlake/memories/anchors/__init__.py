"""What memories rest on: a file, some of its lines, a tensor, a dataset, a commit, another memory.

`anchor` says what an anchor is, `take_anchors` makes one of a word, `standing` says how it stands at a moment, and
`doubt` which memories that calls into question.
"""
