"""All models of transformers and peft, which three modules register."""

from bench.exam import library_more as library_more
from bench.exam import library_other as library_other
from bench.exam.library_text import QUESTIONS as QUESTIONS
