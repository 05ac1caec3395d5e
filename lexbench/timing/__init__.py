"""How fast a system is and how much memory it takes, measured in a process of its own, with proof of the conditions.

    protocol         settings, scenarios, and the task of a measuring process
    timer            `Timer`: times systems on a dataset and keeps every duration in the store
    measuring        the work of a measuring process: open the system, warm up, run the timed passes
    machine          the machine's fingerprint, the memory of a process, and who else used the machine
    durations        latencies, rates and ratios of durations
    stored_timings   reads timings from the store

Other packages use `Settings`, `Timer`, `timings_of_run`, `fingerprint` and the functions of `durations`.
"""
