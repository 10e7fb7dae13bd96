"""The keys of a file, as they are now."""

import hashlib
import itertools
import os
import time

import pytest

from cog_adapt.server.errors import ConfigError
from cog_adapt.server.middleware.keys import KeyRing, make_key, read_keys

DIGEST = "ab" * 32


@pytest.fixture
def ring_of(tmp_path, monkeypatch):
    seconds = itertools.count()  # each look at the clock is a second later than the one before
    monkeypatch.setattr(time, "monotonic", lambda: float(next(seconds)))

    def write(*lines):
        path = tmp_path / "keys"
        path.write_text("\n".join(lines))
        return KeyRing(path), path

    return write


def test_a_made_key_is_found_by_its_line(ring_of):
    key, line = make_key("ci", ["predict", "train"])
    ring, _ = ring_of("# all of them", line)
    found = ring.find(key.encode())
    assert (found.name, found.scopes) == ("ci", {"predict", "train"})
    assert found.opens("train")
    assert not found.opens("admin")


def test_a_key_is_256_random_bits_and_its_line_does_not_hold_it():
    (one, line), (other, _) = make_key("ci", ["predict"]), make_key("ci", ["predict"])
    assert one != other
    assert len(one) == len("ca_") + 43
    assert one not in line
    assert line.endswith(hashlib.sha256(one.encode()).hexdigest())


def test_unknown_keys_are_not_found(ring_of):
    key, line = make_key("ci", ["predict"])
    ring, _ = ring_of(line)
    digest = line.split()[2]
    for wrong in (b"", key[:-1].encode(), digest.encode(), b"\xff\x00", key.upper().encode()):
        assert ring.find(wrong) is None


@pytest.fixture
def far_from_utc(monkeypatch):
    monkeypatch.setenv("TZ", "America/New_York")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.usefixtures("far_from_utc")
def test_a_key_opens_nothing_from_its_expiry_on(ring_of, monkeypatch):
    key, line = make_key("ci", ["predict"])
    ring, _ = ring_of(f"{line}  2027-01-01 # soon")
    expiry = 1798761600  # 2027-01-01 00:00 UTC
    monkeypatch.setattr(time, "time", lambda: expiry - 1)
    assert ring.find(key.encode())
    monkeypatch.setattr(time, "time", lambda: expiry)
    assert ring.find(key.encode()) is None


def test_an_expiry_may_have_a_time_and_a_zone():
    (key,) = read_keys(f"ci predict {DIGEST} 2027-01-01T02:00:00+02:00")
    assert key.expires == 1798761600


def test_a_changed_file_is_read_again(ring_of):
    (old, old_line), (new, new_line) = make_key("ci", ["predict"]), make_key("ci", ["predict"])
    ring, path = ring_of(old_line)
    path.write_text(f"{old_line}\n{new_line}\n")
    assert ring.find(old.encode())
    assert ring.find(new.encode())
    path.write_text(f"{new_line}\n")
    assert ring.find(old.encode()) is None
    path.write_text("")
    assert ring.find(new.encode()) is None


def test_a_file_of_the_same_size_and_time_that_replaced_it_is_seen(ring_of, tmp_path):
    (_, old_line), (new, new_line) = make_key("ci", ["predict"]), make_key("ci", ["predict"])
    ring, path = ring_of(old_line)
    stamp = path.stat().st_mtime_ns
    other = tmp_path / "other"
    other.write_text(new_line)
    os.utime(other, ns=(stamp, stamp))
    other.replace(path)
    assert ring.find(new.encode())


def test_the_second_begins_anew_with_each_look(tmp_path, monkeypatch):
    key, line = make_key("ci", ["predict"])
    path = tmp_path / "keys"
    path.write_text("")
    now = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    ring = KeyRing(path)
    now[0] += 1.1
    assert ring.find(key.encode()) is None
    path.write_text(line)
    now[0] += 0.9
    assert ring.find(key.encode()) is None
    now[0] += 0.2
    assert ring.find(key.encode())


@pytest.mark.parametrize("break_it", [lambda p: p.write_text("what?"), lambda p: p.unlink()])
def test_a_file_that_went_wrong_leaves_the_keys_and_is_logged_once(ring_of, caplog, break_it):
    key, line = make_key("ci", ["predict"])
    ring, path = ring_of(line)
    break_it(path)
    assert ring.find(key.encode())
    assert ring.find(key.encode())
    assert [record.levelname for record in caplog.records] == ["ERROR"]
    assert "stay as they were" in caplog.text
    new, new_line = make_key("new", ["admin"])
    path.write_text(new_line)
    assert ring.find(new.encode())


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("ci predict", "2 fields"),
        (f"ci predict {DIGEST} 2027-01-01 more", "5 fields"),
        (f"c!i predict {DIGEST}", "'c!i'"),
        (f"ci predict,fly {DIGEST}", "'fly' is none of predict, train, admin"),
        (f"ci , {DIGEST}", "scope ''"),
        (f"ci predict {DIGEST.upper()}", "64 hex digits"),
        (f"ci predict {DIGEST}0", "65 characters"),
        (f"ci predict {DIGEST} tomorrow", "'tomorrow' is no date"),
        (f"ci predict {DIGEST}\nother train {DIGEST}", "line 4: its key is on an earlier line"),
    ],
)
def test_a_malformed_line_is_refused_at_start_with_its_number(tmp_path, line, says):
    path = tmp_path / "keys"
    path.write_text(f"# first\n\n{line}\n")
    with pytest.raises(ConfigError, match=r"API_KEYS_FILE .*, line [34]: ") as caught:
        KeyRing(path)
    assert says in str(caught.value)


def test_a_key_in_place_of_its_hash_is_not_repeated_in_the_error(tmp_path):
    key, _ = make_key("ci", ["predict"])
    with pytest.raises(ConfigError) as caught:
        read_keys(f"ci predict {key}")
    assert key not in str(caught.value)


@pytest.mark.parametrize("content", [None, b"\xff\xfe"])
def test_a_file_that_cannot_be_read_is_refused_at_start(tmp_path, content):
    path = tmp_path / "keys"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ConfigError, match="cannot be read"):
        KeyRing(path)


@pytest.mark.parametrize(
    ("name", "scopes", "says"),
    [
        ("ci", ["everything"], "'everything' is none of"),
        ("ci", [], "fields"),
        ("ci admin", ["predict"], "name 'ci admin'"),
        ("ci\nroot", ["predict"], "name"),
        ("#ci", ["predict"], "name '#ci'"),
    ],
)
def test_a_key_that_the_file_could_not_hold_is_not_made(name, scopes, says):
    with pytest.raises(ConfigError, match=says):
        make_key(name, scopes)


def test_a_key_belongs_to_the_owner_of_its_line_else_to_itself():
    digests = ["ab" * 32, "cd" * 32, "ef" * 32]
    keys = read_keys(
        f"ci predict {digests[0]} owner=acme\n"
        f"laptop predict {digests[1]} 2027-01-01 owner=acme\nalone predict {digests[2]}"
    )
    assert [key.owner for key in keys] == ["acme", "acme", "alone"]
    assert keys[1].expires == read_keys(f"a predict {DIGEST} 2027-01-01")[0].expires


@pytest.mark.parametrize("field", ["owner=", "owner=a/b", "owner=a b", "2027-01-01 owner=!"])
def test_an_owner_that_is_no_name_is_refused(field):
    with pytest.raises(ConfigError, match="line 1: "):
        read_keys(f"ci predict {DIGEST} {field}")
