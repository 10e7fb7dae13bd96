"""Questions that an outside examiner wrote from the documentation alone, before any of them ran.

The examiner read the pages that are in `gradient_check/docs` and the vocabulary of `case.py`, but
neither the check's code, its tests, other questions of the exam nor its results. Each question was
tried with plain torch alone: that it runs, that its gradient agrees with finite differences in
float64 where it is healthy (values that are declared constant held still), and that it does not
where it is faulty.

There are five families of 22 faults and 22 healthy models. Within a family the questions were
numbered in the order in which they were written; the rule of the split was fixed before the first:
odd numbers are open (`open_*.py`, in order, cut by letters at a number of lines), even numbers are
sealed. The sealed half is `sealed_a.zip`, whose SHA-256 stands in `sealed_a.sha256`: modules
`sealed_*.py` for this package, to be unpacked for a run and never read by who works on the check.
"""
