"""Judging assertions on Spark: by messages and links, and by clocks.

``rows`` says what of a finding goes from tasks to the driver, ``by_links`` judges conversation by
conversation, ``by_clocks`` what is concurrent and what may have come before; ``pasts`` is the pure
part of the latter.
"""
