"""The words by which a person states something to be obeyed later. Lists of a language, and no patterns.

A hook starts a process for each prompt, and compiling patterns would be most of what it does: English is looked at
word by word, with `,` as a word of its own, Chinese by what a sentence has in it. The lists are general and written by
hand; what they are for says who asks them (`statements.py`, `prompts.py`, `coding_session.py`).
"""
