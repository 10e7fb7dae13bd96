"""An examination of `check_gradients`: faulty and healthy models, and what is right to say of each.

The tests read the set `known`; no test but a sample reads the others. None of it is in the wheel: a
user of the check needs no faulty model, and the models need numpy, transformers and peft.
"""
