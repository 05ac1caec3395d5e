"""How fast a system is, and how much it takes: measured in a process of its own, with proof of the conditions.

    protocol         what is asked for, and the process that measures
    measure          times a system on a dataset: `Timer`
    stored_timings   raw durations in the store, and what is told of them
    statistics       latencies, rates and ratios of durations
    fingerprint      what kind of machine this is; speeds compare within one kind only
    calibration      the same work on every machine
    child, loop, counters    of the measuring process: the system opened, the timed loops, what the kernel counts

Others take `Settings`, `Timer`, `timings_of_run` and the statistics. The measuring process is `python -m lexbench.timing`.
"""
