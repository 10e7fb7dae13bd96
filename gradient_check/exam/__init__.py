"""An examination of `check_gradients`: faulty and healthy models, and the right answer for each.

The tests read the set `known`; of the others, tests read only a sample. The wheel contains no part
of this package: a user of the check needs no faulty model, and the models need numpy, transformers
and peft.
"""
