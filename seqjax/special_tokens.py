"""Tokens that stand for no text, the same in every vocabulary of a translation; what the text is made of comes after them.

Where text is masked or marked (BERT: [CLS] is START, [SEP] is END), MASK is the fifth of them.
"""

PADDING, UNKNOWN, START, END, MASK = range(5)
MARKED_COUNT = 5
