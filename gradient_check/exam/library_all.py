"""All models of transformers and peft, which three modules register."""

from gradient_check.exam import library_more as library_more
from gradient_check.exam import library_other as library_other
from gradient_check.exam.library_text import questions as questions
