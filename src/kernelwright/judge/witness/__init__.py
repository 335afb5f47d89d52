"""Witnessed candidates: arbitrary Python judged without being trusted.

Three processes. The judge worker draws inputs, holds truth, clock and verdict (witness.py, examine.py run
there). The witness worker (worker.py) holds the candidate and nothing that it could steal: inputs come through
shared memory, results are copied into memory of the judge's. The parent only collects the record.

What stops a cheat is therefore never what runs beside it. The checks inside the witness worker (structure.py,
surroundings.py) name faults; a candidate that subverts all of them still has to put right answers for contents
that it had not seen into the judge's memory, while the judge's clock runs and before its process is stopped.

Not here: what is right (correctness.py) and how rounds are made (timing.py); both are those of sealed candidates.
"""
