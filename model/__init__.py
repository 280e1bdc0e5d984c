"""Values that the service and its Spark jobs share, described once; shipped with both. Read first:

    words.py     the words of an event: its types, its matches
    event.py     an event's fields: where each is stored, how it is shown, what it means
    gaps.py      gaps, and the one rule for which of them an answer spans
    sound.py     doubts about who acts, and the one rule for which of them an answer has
    doubtful.py  deliveries whose causes are not known, and the events behind them
    times.py     times as text
    bodies.py    bodies read within bounds: unpacked, as UTF-8, as JSON
    payloads.py  payloads as text
    blocks.py    which ids' times the store notes together
    exports.py   exports: formats, names, quota
    jobs.py      a job's progress, and who has to act when it cannot go on

Pure: no I/O, and nothing but `itc` and the standard library, because Spark's executors import it.
"""
