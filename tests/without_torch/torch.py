"""Stands in front of torch for the processes that tests start: seqjax must not need it, and importing it takes seconds."""

raise ImportError('hidden from the processes that tests start')
