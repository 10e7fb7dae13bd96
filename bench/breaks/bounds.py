"""Breaks of the bounds on callers' data: at least one for each decoder of `docs/security.md`."""

from bench.breaks.planting import Break

_RUNNER, _SERVER, _TESTS = "cog_adapt/runner", "cog_adapt/server", "tests/cog_adapt"
_EXAMPLES = f"{_TESTS}/runner/data/test_examples.py"
_BOUNDS = f"{_TESTS}/decoders/test_bounds.py"
_ZIPS, _INPUTS = f"{_TESTS}/decoders/test_zip_bombs.py", f"{_TESTS}/test_inputs_bounded.py"
_PICTURES, _BLOCKS = (
    f"examples/image/tests/{name}.py" for name in ("test_image", "test_picture_blocks")
)
_COUNTED = (
    "    if len(text) > MOST_BYTES:\n"
    "        raise InputError(\n"
    '            f"the receipt has {len(text):,} bytes; the limit is {MOST_BYTES:,}. '
    'Send it unchanged."\n'
    "        )\n"
)
_PARSED = "    try:\n        receipt = json.loads(text)\n"

BREAKS = (
    Break(
        "JSON is decoded before its brackets and commas are counted",
        f"{_RUNNER}/data/examples.py",
        "    _refuse_crowd(text, limits)\n    return rows_of(text)\n",
        "    rows = rows_of(text)\n    _refuse_crowd(text, limits)\n    return rows\n",
        _EXAMPLES,
    ),
    Break(
        "a CSV has a hundred times the columns",
        f"{_RUNNER}/data/csv_rows.py",
        "if len(names) > MOST_COLUMNS:",
        "if len(names) > 100 * MOST_COLUMNS:",
        _EXAMPLES,
    ),
    Break(
        "a ZIP's members may be packed by bzip2 or LZMA",
        f"{_RUNNER}/data/zip_files.py",
        "if member.compress_type not in _METHODS:",
        "if member.compress_type not in (*_METHODS, *_FOREIGN):",
        _ZIPS,
    ),
    Break(
        "the members of a ZIP are not bounded together",
        f"{_RUNNER}/data/zip_files.py",
        "if total > bounds.total_bytes:",
        "if total < 0:",
        _ZIPS,
    ),
    Break(
        "a picture is decoded before its pixels are counted",
        "examples/image/pictures.py",
        "            _check_size(picture)\n            yield picture\n",
        "            picture.load()\n            _check_size(picture)\n            yield picture\n",
        _PICTURES,
    ),
    Break(
        "a JPEG may have three hundred scans",
        "examples/image/picture_blocks.py",
        "MOST_BLOCKS, MOST_SCANS, MOST_EXIF = 10_000, 100, 2",
        "MOST_BLOCKS, MOST_SCANS, MOST_EXIF = 10_000, 300, 2",
        _BLOCKS,
    ),
    Break(
        "a WebP may have the pixels of a PNG",
        "examples/image/pictures.py",
        'MOST_WEBP_PIXELS if picture.format == "WEBP" else MOST_PIXELS',
        "MOST_PIXELS",
        _BLOCKS,
    ),
    Break(
        "the parts of a GIF are not counted",
        "examples/image/picture_blocks.py",
        "_limit(_gif_parts(content))",
        "pass",
        _BLOCKS,
    ),
    Break(
        "a picture inside a list has no pixels",
        f"{_RUNNER}/task/picture_sizes.py",
        "            left += part\n",
        "            pass\n",
        f"{_TESTS}/test_pixels_bounded.py",
    ),
    Break(
        "a sound is decoded before its seconds are counted",
        "examples/speech/sounds.py",
        "            _check_length(_frames_of(file, content) / file.getframerate())\n",
        "",
        "examples/speech/tests/test_speech.py",
    ),
    Break(
        "tensors are made before they are counted",
        f"{_RUNNER}/modules/adapters.py",
        "    _check_header(content, name)\n    try:\n"
        "        tensors: dict[str, Tensor] = load(content)\n",
        "    try:\n        tensors: dict[str, Tensor] = load(content)\n"
        "        _check_header(content, name)\n",
        _BOUNDS,
    ),
    Break(
        "a config of PEFT may have any size",
        f"{_RUNNER}/storage/peft_format.py",
        "if config.file_size > _MOST_CONFIG_BYTES:",
        "if config.file_size < 0:",
        _ZIPS,
    ),
    Break(
        "a config of PEFT may have any number of patterns",
        f"{_RUNNER}/storage/peft_config.py",
        "if not isinstance(patterns, dict) or len(patterns) > _MOST_PATTERNS:",
        "if not isinstance(patterns, dict):",
        _BOUNDS,
    ),
    Break(
        "a receipt is parsed before its bytes are counted",
        f"{_RUNNER}/known/receipt.py",
        _COUNTED + _PARSED,
        _PARSED + _COUNTED.replace("    ", "        ", 1).replace("\n    ", "\n        "),
        _BOUNDS,
    ),
    Break(
        "a message of any type is taken by the worker",
        f"{_SERVER}/protocol.py",
        "_requests = msgspec.msgpack.Decoder(Request)",
        '_requests: "msgspec.msgpack.Decoder[Any]" = msgspec.msgpack.Decoder()',
        f"{_TESTS}/server/test_protocol.py",
    ),
    Break(
        "a data URL may hold any number of bytes",
        f"{_SERVER}/worker/data_urls.py",
        "if size > most_bytes:",
        "if size < 0:",
        f"{_TESTS}/server/worker/test_data_urls.py",
    ),
    Break(
        "a body may have ten times the levels",
        f"{_SERVER}/api/body.py",
        "    if levels(content) > MOST_LEVELS:\n",
        "    if levels(content) > 10 * MOST_LEVELS:\n",
        f"{_TESTS}/server/api/test_body.py",
    ),
    Break(
        "inputs are decoded on the model thread",
        f"{_RUNNER}/model/input_decoder.py",
        "return not self.threads or are_decoded(query.inputs)",
        "return True",
        _INPUTS,
    ),
    Break(
        "what is decoded quickly waits for what is slow",
        f"{_RUNNER}/task/decoding.py",
        "return (QUICK, ALL) if tells_quick_inputs(task) else (ALL,)",
        "return (ALL,)",
        _INPUTS,
    ),
    Break(
        "a picture's row may have any length",
        "examples/image/pictures.py",
        "if max(width, height) > MOST_SIDE:",
        "if max(width, height) < 0:",
        _PICTURES,
    ),
    Break(
        "a text for a tokenizer may have any length",
        f"{_RUNNER}/task/input_sizes.py",
        "if size > task.max_characters and not decodes(task):",
        "if size < 0:",
        _INPUTS,
    ),
)
