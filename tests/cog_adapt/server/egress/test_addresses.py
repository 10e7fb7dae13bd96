import contextlib
import ipaddress
import socket
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from cog_adapt.server.egress.addresses import AddressRules, EgressError
from cog_adapt.server.errors import ConfigError

REFUSED = [
    *("127.0.0.1", "127.255.255.254", "0.0.0.0", "10.0.0.1", "172.16.0.1", "172.31.255.255"),
    *("192.168.1.1", "169.254.169.254", "100.64.0.1", "100.127.255.255", "224.0.0.1", "240.0.0.1"),
    *("255.255.255.255", "192.0.2.1", "198.18.0.1", "168.63.129.16"),
    *("::1", "::", "fe80::1", "fc00::1", "fd00:ec2::254", "ff02::1", "fec0::1", "2001:db8::1"),
    *("::ffff:127.0.0.1", "::ffff:10.0.0.1", "::127.0.0.1", "::ffff:0:127.0.0.1", "4000::1"),
    *("64:ff9b::127.0.0.1", "64:ff9b:1::7f00:1", "2002:7f00:1::", "2001::1"),
]
PUBLIC = ["1.1.1.1", "172.15.0.1", "172.32.0.1", "100.63.0.1", "100.128.0.1", "2606:4700::1111"]


@pytest.fixture(scope="module", autouse=True)
def dns():
    """Addresses of names; numbers in any spelling are read as ever, no name server is asked."""
    answers: dict[Any, Any]
    answers, real = {}, socket.getaddrinfo

    def resolve(host, port, **kwargs):
        kwargs["flags"] = socket.AI_NUMERICHOST
        found = [real(each, port, **kwargs) for each in answers.get(host, [host])]
        return [answer for each in found for answer in each]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(socket, "getaddrinfo", resolve)
        yield answers


@pytest.mark.parametrize("address", REFUSED)
def test_an_address_that_is_not_public_is_refused(address):
    with pytest.raises(EgressError, match="EGRESS_ALLOW="):
        AddressRules().find_addresses(address, 80)


@pytest.mark.parametrize("address", PUBLIC)
def test_a_public_address_is_reached(address):
    assert AddressRules().find_addresses(address, 80) == [address]


def test_the_refusal_of_an_address_names_it_the_rule_and_the_remedy():
    with pytest.raises(EgressError) as caught:
        AddressRules().find_addresses("169.254.169.254", 80)
    for part in ("169.254.169.254", "(imds)", "EGRESS_ALLOW=169.254.169.254"):
        assert part in str(caught.value)


def test_the_refusal_of_a_name_does_not_tell_where_it_leads(dns):
    dns["meta.example"] = ["169.254.169.254"]
    with pytest.raises(EgressError) as caught:
        AddressRules().find_addresses("meta.example", 80)
    assert str(caught.value) == (
        "'meta.example' is not reached for a caller: its address is not public. "
        "The operator can allow it: EGRESS_ALLOW=meta.example"
    )


@settings(deadline=None)
@given(st.ip_addresses())
@example(ipaddress.ip_address("192.88.99.1"))
def test_whatever_python_calls_not_global_is_refused(address):
    if not address.is_global or address.is_multicast:
        with pytest.raises(EgressError):
            AddressRules().find_addresses(str(address), 80)


WIDE = str.maketrans("0123456789.", "０１２３４５６７８９。")
NUMBERS = st.sampled_from(["{:d}", "0{:o}", "00{:o}", "0x{:x}", "0X{:X}", "0x000{:x}"])


@settings(deadline=None)
@given(
    st.sampled_from([address for address in REFUSED if ":" not in address]),
    st.integers(1, 4),
    st.lists(NUMBERS, min_size=4, max_size=4),
    st.sampled_from(["", "."]),
    st.booleans(),
)
def test_no_spelling_of_a_refused_address_gets_through(address, parts, forms, end, wide):
    octets = ipaddress.IPv4Address(address).packed
    numbers = [*octets[: parts - 1], int.from_bytes(octets[parts - 1 :], "big")]
    spelling = ".".join(form.format(number) for form, number in zip(forms, numbers, strict=False))
    assert socket.inet_aton(spelling) == octets  # it is what a connection would be made to
    with pytest.raises(EgressError):
        AddressRules().find_addresses(spelling, 80)
    with pytest.raises((EgressError, OSError)):
        AddressRules().find_addresses((spelling + end).translate(WIDE if wide else {}), 80)


@settings(deadline=None)
@given(st.text("0123456789abcdefx.:[]%@/\\ ", max_size=20))
def test_no_text_leads_to_a_refused_address(text):
    with contextlib.suppress(EgressError, OSError, ValueError):
        for address in AddressRules().find_addresses(text, 80):
            assert ipaddress.ip_address(address).is_global


def test_of_several_addresses_only_the_public_are_reached(dns):
    dns["mixed.example"] = ["10.0.0.1", "1.1.1.1", "::1"]
    assert AddressRules().find_addresses("mixed.example", 80) == ["1.1.1.1"]


def test_a_network_is_allowed_in_every_form_of_its_addresses(dns):
    dns["localhost"] = ["::1", "127.0.0.1"]
    rules = AddressRules(["127.0.0.0/8"])
    assert rules.find_addresses("localhost", 80) == ["127.0.0.1"]
    assert rules.find_addresses("::ffff:127.0.0.1", 80) == ["127.0.0.1"]
    with pytest.raises(EgressError):
        rules.find_addresses("10.0.0.1", 80)


def test_a_name_is_allowed_whatever_its_address(dns):
    dns.update(
        {name: ["10.0.0.1"] for name in ("files.internal", "Files.Internal.", "evil.example")}
    )
    rules = AddressRules(["Files.internal"])
    assert rules.find_addresses("files.internal", 80) == ["10.0.0.1"]
    assert rules.find_addresses("Files.Internal.", 80) == ["10.0.0.1"]
    with pytest.raises(EgressError):
        rules.find_addresses("evil.example", 80)


def test_a_star_allows_the_names_below_and_no_others(dns):
    names = ("a.corp.example", "a.b.corp.example", "corp.example", "evilcorp.example")
    dns.update({name: ["10.0.0.1"] for name in names})
    rules = AddressRules(["*.corp.example"])
    assert rules.find_addresses("a.corp.example", 80) == ["10.0.0.1"]
    assert rules.find_addresses("a.b.corp.example", 80) == ["10.0.0.1"]
    for name in ("corp.example", "evilcorp.example"):
        with pytest.raises(EgressError):
            rules.find_addresses(name, 80)


@pytest.mark.parametrize(
    "entry",
    [
        "10.0.0.5/8",
        "10.0.0.0/33",
        "http://a.example",
        "a.example:80",
        "*",
        "a.*.b",
        "",
        "2130706433",
    ]
    + ["0x7f000001", "127.1", "a b", "[::1]", "bücher.example"],
)
def test_a_malformed_entry_is_named(entry):
    with pytest.raises(ConfigError) as caught:
        AddressRules(["files.internal", entry])
    assert repr(entry) in str(caught.value)


@pytest.mark.parametrize("host", ["a..b", "x" * 64 + ".example", ""])
def test_what_is_no_name_has_no_address(host):
    with pytest.raises(OSError, match="."):
        AddressRules().find_addresses(host, 80)


def test_an_entry_may_be_written_as_a_name_is(dns):
    dns["files.internal"] = ["10.0.0.1"]
    rules = AddressRules(["FILES.internal."])
    assert rules.find_addresses("files.internal", 80) == ["10.0.0.1"]


def test_the_range_of_an_address_is_named():
    for address, name in (("10.0.0.1", "private use"), ("4000::1", "not global unicast")):
        with pytest.raises(EgressError, match=rf"is not public \({name}\)"):
            AddressRules().find_addresses(address, 80)


def test_only_hosts_that_are_numbers_are_checked_without_a_name_server(dns):
    dns["private.example"] = ["10.0.0.1"]
    AddressRules().check_number("1.1.1.1")
    AddressRules().check_number("unknown.example")
    with pytest.raises(EgressError):
        AddressRules().check_number("10.0.0.1")
