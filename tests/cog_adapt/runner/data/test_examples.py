"""Examples are read from any of the formats, and a bad set is refused row by row."""

import csv
import io
import json
import os
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cog_adapt.runner.data.examples import DEFAULT_LIMITS, Example, ExampleLimits, usual_example
from cog_adapt.runner.data.examples import parse_examples as parse_set
from cog_adapt.runner.data.examples import read_examples as read_set
from cog_adapt.runner.errors import InputError

SHIPPED = Path(__file__).resolve().parents[4] / "examples"
PAIRS = [("Where is my box?", "delivery"), ("It crashes, always", "bug")]
EXAMPLES = [Example(text, label) for text, label in PAIRS]


def parse_examples(source, limits=DEFAULT_LIMITS):
    return parse_set(source, usual_example, limits).examples


def read_examples(path, limits=DEFAULT_LIMITS):
    return read_set(path, usual_example, limits).examples


def as_objects(pairs):
    return [{"text": text, "label": label} for text, label in pairs]


def as_json(pairs):
    return json.dumps(as_objects(pairs), indent=1)


def as_json_lines(pairs):
    return "".join(json.dumps(item, ensure_ascii=False) + "\n" for item in as_objects(pairs))


def as_csv(pairs, delimiter=","):
    out = io.StringIO(newline="")
    csv.writer(out, delimiter=delimiter).writerows([("text", "label"), *pairs])
    return out.getvalue()


def as_tabs(pairs):
    return as_csv(pairs, delimiter="\t")


def as_mapping(pairs):
    texts: Any = {label: [] for _, label in pairs}
    for text, label in pairs:
        texts[label].append(text)
    return json.dumps(texts)


WRITERS = [as_json, as_json_lines, as_csv, as_tabs]


def refusal(source, **limits):
    with pytest.raises(InputError) as caught:
        parse_examples(source, limits=ExampleLimits(**limits))
    return str(caught.value)


def refusal_of_file(path, content=None, **limits):
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(InputError) as caught:
        read_examples(path, limits=ExampleLimits(**limits))
    return caught.value


def assert_says(message, *parts):
    for part in parts:
        assert part in message


# What is read


@pytest.mark.parametrize("write", [*WRITERS, as_mapping])
def test_each_format_is_read_inline(write):
    assert parse_examples(write(PAIRS)) == EXAMPLES


@pytest.mark.parametrize("name", ["file.bin", "file.csv", "file.json", "file.jsonl", "noname"])
@pytest.mark.parametrize("write", [*WRITERS, as_mapping])
def test_the_content_and_not_the_name_decides_the_format(tmp_path, write, name):
    path = tmp_path / name
    path.write_bytes(write(PAIRS).encode())
    assert read_examples(path) == EXAMPLES
    assert read_examples(str(path)) == EXAMPLES


@pytest.mark.parametrize("write", [*WRITERS, as_mapping])
def test_byte_order_mark_and_windows_line_ends_are_accepted(tmp_path, write):
    path = tmp_path / "file.bin"
    text = write(PAIRS).replace("\r\n", "\n").replace("\n", "\r\n")
    path.write_bytes(b"\xef\xbb\xbf" + text.encode())
    assert read_examples(path) == EXAMPLES


@pytest.mark.parametrize("write", [*WRITERS, as_mapping])
def test_space_before_and_after_the_source_is_skipped(write):
    assert parse_examples(" \n\n" * (write is not as_csv) + write(PAIRS) + "\n \n") == EXAMPLES


def test_blank_lines_of_json_lines_and_csv_are_skipped():
    lines = as_json_lines(PAIRS).replace("\n", "\n\n  \n")
    assert parse_examples(lines) == EXAMPLES
    assert parse_examples("\n" + as_csv(PAIRS).replace("\r\n", "\r\n\r\n \r\n")) == EXAMPLES


def test_old_mac_line_ends_are_accepted():
    assert parse_examples(as_json_lines(PAIRS).replace("\n", "\r")) == EXAMPLES
    assert parse_examples(as_csv(PAIRS).replace("\r\n", "\r")) == EXAMPLES


def test_line_separators_of_unicode_do_not_end_a_json_line():
    pairs = [("one\u2028two\x85three", "a"), ("four", "b")]
    assert [e.input for e in parse_examples(as_json_lines(pairs))] == [text for text, _ in pairs]


def test_csv_columns_stand_in_any_order():
    assert parse_examples("label, text\nbug,it\ndelivery,where") == [
        Example("it", "bug"),
        Example("where", "delivery"),
    ]


def test_a_tab_header_makes_commas_ordinary():
    assert parse_examples("text\tlabel\na, b\tx\nc\ty\n")[0] == Example("a, b", "x")


def test_a_comma_header_makes_tabs_ordinary():
    assert parse_examples("text,label\na\tb,x\nc,y\n")[0] == Example("a\tb", "x")
    assert parse_examples("text,\tlabel\na\tb,x\nc,y\n")[0] == Example("a\tb", "x")


def test_quoted_csv_fields_keep_line_ends_and_quotes():
    source = 'text,label\r\n"one\r\ntwo, ""three""",x\r\nfour,y\r\n'
    assert parse_examples(source)[0].input == 'one\r\ntwo, "three"'


def test_csv_values_are_always_texts():
    assert [e.target for e in parse_examples("text,label\n1,2\n3,null\n")] == ["2", "null"]


def test_white_space_in_values_is_kept():
    assert parse_examples("text,label\n a , x \n b ,y\n") == [
        Example(" a ", " x "),
        Example(" b ", "y"),
    ]


def test_exact_duplicates_are_kept():
    assert parse_examples(as_json_lines([*PAIRS, PAIRS[0]])) == [*EXAMPLES, EXAMPLES[0]]


def test_one_object_alone_is_one_example_and_not_a_mapping():
    assert parse_examples('{"text": "a", "label": "b"}') == [Example("a", "b")]
    assert parse_examples('{\n"text": "a",\n"label": "b"\n}') == [Example("a", "b")]


def test_a_mapping_over_several_lines_is_no_json_lines():
    assert parse_examples('{"a": ["x"],\n "b": ["y"]\n}') == [Example("x", "a"), Example("y", "b")]


# What is refused: rows


@pytest.mark.parametrize(
    ("item", "parts"),
    [
        ('{"text": "a"}', ["no target among ['text']", "'target', 'label'"]),
        ('{"label": "a"}', ["no input among ['label']", "'input', 'text', 'sentence'"]),
        ("{}", ["no input among []"]),
        ('{"text": "a", "label": null}', ["label is null", "write a label"]),
        ('{"text": null, "label": "a"}', ["text is null"]),
        ('{"text": "a", "label": ""}', ["label is empty", "''"]),
        ('{"text": "a", "label": " \\t"}', ["label is empty"]),
        ('{"text": "", "label": "a"}', ["text is empty", "''"]),
        ('{"text": " \\n\\u00a0", "label": "a"}', ["text is empty"]),
        ('{"text": "a", "labl": "b"}', ["no target among ['text', 'labl']"]),
        ('["a", "b"]', ["['a', 'b'] is not an object", '{"input": ..., "target": ...}']),
        ('"a"', ["'a' is not an object"]),
        ("null", ["None is not an object"]),
    ],
)
def test_a_bad_item_is_refused_with_its_row_in_a_list_and_in_json_lines(item, parts):
    good = as_json_lines(PAIRS)
    assert_says(refusal(good + "\n" + item), "a row is a line", "row 4: ", *parts)
    in_list = f"[{','.join(good.splitlines())}, {item}]"
    assert_says(refusal(in_list), "a row is an item of the list", "row 3: ", *parts)


@pytest.mark.parametrize(
    ("line", "parts"),
    [
        ("{", ["line 4, column 2", "broken JSON"]),
        ('{"text": "a", "label": }', ["line 4, column 24", "Expecting value"]),
        ('{"text": "a\tb", "label": "c"}', ["line 4, column 12", "control character"]),
        ("text,label", ["line 4, column 1"]),
        ('{"text": "a", "label": "b"} {}', ["line 4, column 29"]),
        ('{"text": "a", "text": "b", "label": "c"}', ["key 'text' occurs twice", "keep one"]),
        ('{"text": NaN, "label": "c"}', ["NaN is not JSON"]),
        ('{"text": -Infinity, "label": "c"}', ["-Infinity is not JSON"]),
        ('{"text": ' + "1" * 5000 + ', "label": "c"}', ["too many digits"]),
        ("[" * 40_000, ["nested too deep"]),
        ('{"text":' * 40_000, ["nested too deep"]),
    ],
)
def test_broken_json_is_refused_with_line_and_column(line, parts):
    good = as_json_lines(PAIRS)
    assert_says(refusal(good + "\n" + line), "row 4: ", *parts)
    assert_says(refusal(f"[{','.join(good.splitlines())},\n\n\n{line}]"), *parts)


def test_a_first_line_that_is_broken_is_still_json_lines():
    assert_says(refusal('{"text": "a", "label": }\n'), "line 1, column 24")
    assert_says(refusal('{"text": "a", "label": }\n' + as_json_lines(PAIRS)), "row 1: broken")
    assert_says(refusal('{"text": "a", "label"\n' + as_json_lines(PAIRS)), "row 1: broken")


def test_a_good_first_line_makes_json_lines_whatever_follows():
    assert_says(refusal('{"text": "a", "label": "b"}\nnull\n'), "row 2: None is not an object")


def test_an_open_text_at_the_end_of_a_json_line_is_called_so():
    assert_says(refusal(as_json_lines(PAIRS) + '{"text": "a\r\n'), "row 3: ", "Unterminated")


def test_a_nested_value_is_shown_in_short():
    nested: Any = "a" * 99
    for _ in range(6):
        nested = [nested] * 4
    message = refusal(json.dumps([{"text": nested, "label": ""}, {"a" * 999: nested}]))
    assert_says(message, "row 1: the label is empty", "row 2: no input among ['aaa")
    assert len(message) < 400


@pytest.mark.parametrize(
    ("row", "parts"),
    [
        ("a,", ["label is empty"]),
        (",", ["text is empty"]),
        (" ,b", ["text is empty"]),
        ("a", ["1 field, the header has 2"]),
        ("a,b,c", ["3 fields, the header has 2", "quote"]),
        ('"a', ["broken CSV", "end of data", "close every quote"]),
        ('"a"b,c', ["broken CSV", "double a quote"]),
    ],
)
def test_a_bad_csv_record_is_refused_with_the_line_it_starts_at(row, parts):
    source = f'text,label\n"two\nlines",x\n\nc,y\n{row}\n'
    assert_says(refusal(source), "the header being row 1", "row 6: ", *parts)


def test_a_long_text_in_a_csv_is_refused_with_its_row_and_the_csv_module_is_left_as_it_was():
    before = csv.field_size_limit()
    message = refusal(as_csv([*PAIRS, ("a" * (before + 1), "b")]))
    assert_says(message, "row 4: ", f"{before:,}", "shorten")
    assert csv.field_size_limit() == before


def test_faults_before_a_broken_csv_record_are_reported_too():
    assert_says(refusal('text,label\na,\nb,"c\nd,\n'), "row 2: the label", "row 3: broken CSV")


def test_a_broken_csv_keeps_the_cause():
    for source in ['"text', 'text,label\n"a']:
        with pytest.raises(InputError) as caught:
            parse_examples(source)
        assert isinstance(caught.value.__cause__, csv.Error)


def test_rows_of_a_mapping_count_within_their_label():
    message = refusal('{"a": ["x", ""], "b": "y", "c": [], " ": ["z"], "d": [null]}')
    assert_says(
        message, "a row is an item of its target's list", "row 2 of 'a': the input is empty"
    )
    assert_says(message, "target 'b': 'y' is not a list", "target 'c': its list is empty")
    assert_says(message, "row 1 of ' ': the target is empty", "row 1 of 'd': the input is null")


def test_lists_under_text_and_label_are_refused_as_ambiguous():
    assert_says(refusal('{"text": ["a"], "label": ["b"]}'), "columns", "JSON list")


def test_the_first_five_bad_rows_are_named_and_the_rest_counted():
    message = refusal(as_json_lines([*PAIRS, *[("", "x")] * 7]))
    assert [line.split(":")[0].strip() for line in message.splitlines()[1:]] == [
        *(f"row {number}" for number in range(3, 8)),
        "and 2 more",
    ]
    assert "more" not in refusal(as_json_lines([*PAIRS, *[("", "x")] * 5]))


# What is only said


def warnings_of(source):
    return parse_set(source).warnings


def test_contradictory_rows_are_kept_and_named():
    source = as_json_lines([*PAIRS, ("again", "bug"), (PAIRS[0][0], "bug")])
    (warning,) = warnings_of(source)
    assert_says(warning, "contradictory rows: 'Where is my box?' is 'bug' in row 4")
    assert_says(warning, "and 'delivery' in row 1")
    assert len(parse_examples(source)) == 4
    (warning,) = warnings_of('{"a": ["x"], "b": ["y", "x"]}')
    assert_says(warning, "'b' in row 2 of 'b' and 'a' in row 1 of 'a'")


def test_the_first_five_contradictions_are_named_and_the_rest_counted():
    pairs = [(str(n), label) for label in "ab" for n in range(7)]
    (warning,) = warnings_of(as_csv(pairs))
    assert warning.count(" and 'a' in row") == 5
    assert warning.endswith("; and 2 more")
    assert "more" not in warnings_of(as_csv([*pairs[:5], *pairs[7:12]]))[0]


def test_the_same_row_twice_is_no_contradiction():
    assert warnings_of(as_json_lines([*PAIRS, PAIRS[0]])) == ()


@pytest.mark.parametrize(
    "source",
    ["text,label,mood\na,x,good\nb,y,bad\n", '[{"text": "a", "label": "x", "mood": 1}]'],
)
def test_columns_that_are_not_used_are_named_once(source):
    assert warnings_of(source) == ("columns not used: 'mood'",)


# What the usual names are


@pytest.mark.parametrize(
    "header", ["input,target", "text,label", "sentence,label", "Text,Label", " SENTENCE , Target "]
)
@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
def test_columns_have_their_usual_names_in_any_case(header, delimiter):
    source = header.replace(",", delimiter) + f"\na{delimiter}x\n"
    assert parse_set(source).examples == [Example("a", "x")]
    assert warnings_of(source) == ()


def test_the_first_usual_name_wins_and_the_other_is_extra():
    assert parse_set("sentence,text,label\na,b,x\n").examples == [Example("b", "x")]
    assert warnings_of("sentence,text,label\na,b,x\n") == ("columns not used: 'sentence'",)


def test_values_of_any_kind_are_taken_as_they_are():
    rows = [{"input": [1, 2.5], "target": 3}, {"input": {"a": None}, "target": False}]
    expected = [Example([1, 2.5], 3), Example({"a": None}, False)]
    assert parse_set(rows).examples == parse_set(json.dumps(rows)).examples == expected


def test_a_list_of_objects_has_the_limit_of_a_text():
    rows = as_objects(PAIRS)
    size = len(json.dumps(rows))
    assert parse_set(rows, usual_example, ExampleLimits(max_total_bytes=size)).examples == EXAMPLES
    assert_says(refusal(rows, max_total_bytes=size - 1), f"take {size} bytes")
    assert_says(refusal([*rows, {}]), "row 3: no input")


def test_a_row_means_what_the_task_says():
    def example_of(row):
        return Example(row["words"].split(), row["stars"])

    rows = parse_set('[{"words": "a b", "stars": 4, "by": "x"}]', example_of)
    assert rows.examples == [Example(["a", "b"], 4)]
    assert rows.warnings == ("columns not used: 'by'",)


# What is refused: limits


@pytest.mark.parametrize("write", WRITERS)
def test_each_limit_is_inclusive_and_named(write):
    pairs = [("abcd", "xy"), ("efgh", "zw")]
    source = write(pairs)
    fitting = {"max_examples": 2, "max_total_bytes": len(source)}
    assert len(parse_examples(source, limits=ExampleLimits(**fitting))) == 2
    assert_says(refusal(source, max_examples=1), "more than 1 examples")
    over = refusal(source, max_total_bytes=len(source) - 1)
    assert_says(over, f"take {len(source)} bytes, the limit is {len(source) - 1}")


def test_the_size_of_a_source_counts_bytes():
    source = as_json_lines([("ä", "x"), ("b", "y")])
    assert_says(refusal(source, max_total_bytes=len(source)), f"{len(source) + 1} bytes")


def test_the_default_limits_hold():
    limits = ExampleLimits()
    assert_says(refusal(as_csv([(str(n), str(n % 2)) for n in range(10_001)])), "10000 examples")
    assert limits.max_total_bytes == 32 * 1024 * 1024


def test_examples_over_the_limit_are_not_read_to_the_end():
    assert_says(refusal("text,label\na,\nb,\n" + '"', max_examples=2), "more than 2")


# What is refused: sets


@pytest.mark.parametrize("source", ["", " \n", "\ufeff", "[]", "{}", "text,label\n", "\ufeff\n"])
def test_a_source_without_examples_is_refused_with_the_formats(source):
    assert_says(refusal(source), "no examples", "JSON Lines", "CSV")


@pytest.mark.parametrize("source", ["text", "label\n", "Hello there", "3", '""'])
def test_a_header_alone_has_no_examples(source):
    assert_says(refusal(source), "no examples", "JSON Lines", "CSV")


@pytest.mark.parametrize(
    ("source", "parts"),
    [
        ("text\na", ["row 2: no target among ['text']"]),
        ("label\na", ["row 2: no input among ['label']"]),
        ("text,label,text\n", ["row 1, the header", "column 'text' occurs twice"]),
        ('"text', ["row 1", "broken CSV"]),
    ],
)
def test_a_wrong_csv_header_is_refused_with_the_known_columns(source, parts):
    assert_says(refusal(source), *parts)


# What is refused: files


def test_bytes_that_are_not_utf8_are_refused_with_offset_and_line(tmp_path):
    error = refusal_of_file(tmp_path / "latin.csv", b"text,label\na,b\n\xe9t\xe9,c\n")
    assert_says(str(error), "latin.csv", "not UTF-8", "0xe9", "offset 15", "line 3", "save")
    error = refusal_of_file(tmp_path / "utf16.csv", as_csv(PAIRS).encode("utf-16"))
    assert_says(str(error), "not UTF-8", "offset 0", "line 1")


def test_a_file_over_the_limit_is_refused(tmp_path):
    content = as_csv(PAIRS).encode()
    path = tmp_path / "big.csv"
    error = refusal_of_file(path, content, max_total_bytes=len(content) - 1)
    assert_says(str(error), "big.csv", f"bigger than {len(content) - 1} bytes")
    assert read_examples(path, limits=ExampleLimits(max_total_bytes=len(content))) == EXAMPLES


def test_a_missing_file_a_folder_and_an_impossible_name_are_refused_with_the_cause(tmp_path):
    error = refusal_of_file(tmp_path / "missing")
    assert_says(str(error), "missing", "No such file", "give a file")
    assert isinstance(error.__cause__.__cause__, FileNotFoundError)
    assert isinstance(refusal_of_file(tmp_path).__cause__.__cause__, OSError)
    assert isinstance(refusal_of_file("a\0b").__cause__.__cause__, ValueError)


def test_a_pipe_is_refused_and_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    assert_says(str(refusal_of_file(tmp_path / "pipe")), "pipe", "no regular file")


@pytest.mark.skipif(not Path("/proc/self/mem").exists(), reason="needs Linux's /proc")
def test_an_unreadable_file_is_refused_with_the_cause():
    # Permissions do not stop root; the first page of a process stops everyone.
    assert isinstance(refusal_of_file("/proc/self/mem").__cause__.__cause__, OSError)


def test_a_refused_row_names_the_file_and_keeps_the_cause(tmp_path):
    error = refusal_of_file(tmp_path / "file.bin", b'{"text": "a", "label": "b"}\n{\n')
    assert_says(str(error), "file.bin", "row 2: broken JSON")
    assert isinstance(error.__cause__.__cause__.__cause__, json.JSONDecodeError)


# Any examples, any bytes

CHARACTERS = st.characters(exclude_categories=["Cs"], exclude_characters="\0")
TEXTS = st.text(CHARACTERS, min_size=1, max_size=30).filter(str.strip)
LABELS = st.text(CHARACTERS, min_size=1, max_size=8).map(str.strip).filter(bool)
SETS = (
    st.dictionaries(TEXTS, LABELS, min_size=2, max_size=8)
    .filter(lambda labels: len(set(labels.values())) > 1)
    .flatmap(lambda labels: st.permutations([*labels.items(), *list(labels.items())[:2]]))
)
FRAGMENTS = st.sampled_from(
    [b'"', b",", b"\n", b"\r", b"\t", b"{", b"}", b"[", b"]", b":", b"\\", b"\0", b"\xff", b" "]
    + [b'"text"', b'"label"', b"text,label", b"text\tlabel", b'"a"', b"b", b"3", b"null", b"NaN"]
    + [b'{"text": "a", "label": "b"}', b'{"text": "c", "label": "d"}', b"\xef\xbb\xbf", b"\\ud800"]
)
CONTENTS = st.binary(max_size=60) | st.lists(FRAGMENTS, max_size=16).map(b"".join)


@given(pairs=SETS)
@settings(deadline=None)
def test_any_examples_are_read_back_as_written(pairs, tmp_path_factory):
    path = tmp_path_factory.getbasetemp() / "round-trip"
    for write in WRITERS:
        path.write_bytes(write(pairs).encode())
        assert read_examples(path) == [Example(text, label) for text, label in pairs]
        path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())
        assert read_examples(path) == [Example(text, label) for text, label in pairs]


@given(pairs=SETS)
@settings(deadline=None)
def test_any_mapping_is_read_back_as_written(pairs):
    # Lists under exactly two of these names could be columns and are refused.
    usual = ("input", "text", "sentence", "target", "label")
    labels = {label for _, label in pairs}
    if len(labels) != 2 or not {label.casefold() for label in labels} <= {*usual}:
        found = Counter(parse_examples(as_mapping(pairs)))
        assert found == Counter(Example(text, label) for text, label in pairs)


@given(content=CONTENTS)
@settings(deadline=None, max_examples=500)
def test_any_bytes_give_examples_or_an_input_error(content, tmp_path_factory):
    path = tmp_path_factory.getbasetemp() / "any-bytes"
    path.write_bytes(content)
    try:
        examples = read_examples(path)
    except InputError as error:
        assert str(error).encode()  # noqa: PT017  (every refusal can be sent as UTF-8)
    else:
        assert examples


@given(pairs=SETS, data=st.data())
@settings(deadline=None, max_examples=200)
def test_a_damaged_file_gives_examples_or_an_input_error(pairs, data, tmp_path_factory):
    content = data.draw(st.sampled_from(WRITERS))(pairs).encode()
    at = data.draw(st.integers(0, len(content)))
    path = tmp_path_factory.getbasetemp() / "damaged"
    path.write_bytes(content[:at] + data.draw(FRAGMENTS) + content[at + 1 :])
    try:
        assert read_examples(path)
    except InputError as error:
        assert str(error).encode()  # noqa: PT017  (every refusal can be sent as UTF-8)


@given(source=st.text(st.characters(), max_size=40))
@settings(deadline=None)
def test_any_string_gives_examples_or_an_input_error(source):
    try:
        assert parse_examples(source)
    except InputError as error:
        assert str(error).encode()  # noqa: PT017  (every refusal can be sent as UTF-8)


# Bounds

ROW = '{"text": "a", "label": "b"}'
HOSTILE = {
    "a list of nothing": ("[" + "[]," * 9_000_000 + "1]", "more than 50,000 brackets"),
    "a list of numbers": ("[" + "1," * 9_000_000 + "1]", "more than 1,000,000 commas"),
    "brackets alone": ("[" * 30_000_000, "more than 50,000 brackets"),
    "lines alone": (f"{ROW}\n" + "\n" * 9_000_000, "more than 1,000,000 lines"),
    "a header of commas": ("," * 900_000, "900,001 columns, the limit is 1,000"),
    "a column too many": ("," * 1_000, "1,001 columns, the limit is 1,000"),
    "a row of columns": (
        '[{"text": "a", "label": "b"' + "".join(f',"{n}":1' for n in range(1_000)) + "}]",
        "row 1: 1,002 columns, the limit is 1,000",
    ),
    "a nest": (f'[{{"text":{"[" * 33}{"]" * 33},"label":"b"}}]', "row 1: more than 32 levels"),
    "a nest as target": (f'[{{"text":1,"label":{"[" * 900}{"]" * 900}}}]', "more than 32 levels"),
    "a nest in a line": (f"{ROW}\n" + '{"text":' + "[" * 40_000, "row 2: JSON nested too deep"),
    "a long text": (
        f'[{{"text":"{"a" * 131_073}","label":"b"}}]',
        "row 1: the input has 131,073 characters, the limit is 131,072: shorten it",
    ),
    "a long field": (
        "text,label\n" + "a" * 131_073 + ",b",
        "row 2: the input has 131,073 characters, the limit is 131,072: shorten it",
    ),
    "an open quote": ('text,label\n"' + "a" * 9_000_000, "row 2: broken CSV"),
    "a long number": ('[{"text":"a","label":' + "9" * 5_000 + "}]", "too many digits"),
    "rows": (f"{ROW}\n" * 40_000, "more than 10000 examples"),
    "targets": (json.dumps({str(n): ["a"] for n in range(40_000)}), "more than 10000 examples"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_source_is_refused_soon_and_in_few_words(name):
    source, reason = HOSTILE[name]
    begun = time.process_time()
    with pytest.raises(InputError, match=reason) as caught:
        parse_examples(source)
    assert time.process_time() - begun < 4  # 29 MB of `[],` alone took 17 s, and 500 MB
    assert len(str(caught.value)) < 1_000


def test_a_row_just_within_the_bounds_is_taken():
    nest = "[" * 32 + "]" * 32
    assert parse_examples(f'[{{"text":{nest},"label":"b"}}]')
    assert parse_examples(f'[{{"text":"{"a" * 131_072}","label":"b"}}]')


def test_a_list_of_objects_is_bounded_as_its_text_is():
    deep: Any = []
    for _ in range(100):
        deep = [deep]
    with pytest.raises(InputError, match="more than 32 levels"):
        parse_examples([{"text": deep, "label": "b"}])
    with pytest.raises(InputError, match="more than 10000 examples"):
        parse_examples([{"text": "a", "label": "b"}] * 10_001)


# The files of this project


@pytest.mark.parametrize(
    ("name", "examples_a_label"),
    [("tickets.jsonl", 8), ("tickets.csv", 8), ("tickets_heldout.jsonl", 10)]
    + [("tickets_train.jsonl", 30)],
)
def test_the_shipped_tickets_have_six_even_labels_and_no_duplicates(name, examples_a_label):
    examples = read_examples(SHIPPED / name)
    counts = Counter(example.target for example in examples)
    assert counts == dict.fromkeys(
        ["refund", "delivery", "access", "defect", "idea", "billing"], examples_a_label
    )
    assert len({example.input for example in examples}) == len(examples)


def test_the_shipped_tickets_keep_training_and_held_out_apart():
    few, table, held_out, train = (
        read_examples(SHIPPED / f"tickets{name}")
        for name in [".jsonl", ".csv", "_heldout.jsonl", "_train.jsonl"]
    )
    assert table == few
    assert train[: len(few)] == few
    assert not {e.input.casefold() for e in train} & {e.input.casefold() for e in held_out}


def test_no_shipped_ticket_says_its_label():
    for name in ["tickets_train.jsonl", "tickets_heldout.jsonl"]:
        for example in read_examples(SHIPPED / name):
            assert example.target not in example.input.casefold()
