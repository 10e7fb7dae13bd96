"""Cases of a second examiner, written from the documentation before any of them ran.

The cases come from the page of the gradient self-test and the stories beside it, and from the
vocabulary of the module `case`. Neither the code of the check, nor its tests, nor the other cases
and results of the exam were read, and `check_gradients` ran on none of these cases.

Five families (quantization-aware training, sparse experts, recurrent state, custom autograd
functions, wrapped models) have 20 faults and 20 healthy models each, in the order fault, fault,
healthy, healthy. Plain torch alone checked them: central differences, in float64 where a model
allows it, are those of a healthy model beyond its declarations, and not those of a wrong gradient;
a healthy model writes to none of its tensors, repeats its answer and can be copied.

By a rule fixed before, the odd cases of a family in the order written are open, here in plain form.
The even ones are sealed in `sealed_b.zip`, one module for each family with a list `questions` as
here; `sealed_b.sha256` has the archive's digest. Where a case gives no values of its own, its
parameters come from torch's global stream; the checks above held under the seeds 0, 1 and 2.
"""
