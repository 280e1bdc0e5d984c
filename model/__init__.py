"""Values that the service and its Spark jobs share, described once; shipped with both.

    words.py     the words of an event: its types, its matches
    event.py     an event's fields: where each is stored, how it is shown, what it means
    gaps.py      gaps, and the one rule for which of them an answer spans
    sound.py     doubts about who acts, and the one rule for which of them an answer has
    doubtful.py  deliveries of which it is not known what led to them, and what lies behind them
    times.py     times as text
    bodies.py    bodies read within bounds: unpacked, as UTF-8, as JSON
    payloads.py  payloads as text
    blocks.py    which ids' times the store notes together
    exports.py   what exports are called, and what is said of one
    jobs.py      how far a job is, and who has to act when it cannot go on

Pure: no I/O, and nothing but `itc` and the standard library, because Spark's executors import it.
"""
