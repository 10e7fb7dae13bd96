"""How the host is divided among the model processes."""

import os
import subprocess
from pathlib import Path

import pytest

from cog_adapt.machine import MEMORY_SHARERS, cores, memory_bytes
from cog_adapt.server.errors import ConfigError
from cog_adapt.server.service.nvml import Cards
from cog_adapt.server.service.places import cores_of_node, places_of
from cog_adapt.server.worker.config import Place

SOURCE = Path(__file__).parent / "nvml_stand_in.c"
ABSENT = Cards("libno-such-driver.so")


@pytest.fixture(scope="module")
def cards(tmp_path_factory):
    """A driver with three cards; the first two are on nodes 0 and 1."""
    folder = tmp_path_factory.mktemp("nvml")
    library = folder / "libnvml.so"
    command = ["g++", "-x", "c", "-shared", "-fPIC", str(SOURCE), "-o", str(library)]
    try:
        subprocess.run(command, check=True)
    except FileNotFoundError:
        pytest.skip("no g++, which compiles the driver's stand-in")
    for bus, node in (("0001:a1:00.0", 0), ("0001:a2:00.0", 1)):
        (folder / bus).mkdir()
        (folder / bus / "numa_node").write_text(f"{node}\n")
    return Cards(str(library), folder)


def devices(places):
    return [place.device for place in places]


@pytest.mark.parametrize("processes", [1, "auto"])
def test_the_only_process_uses_what_the_server_may_use(processes):
    for environment in ({}, {"CUDA_VISIBLE_DEVICES": "3"}, {"CUDA_VISIBLE_DEVICES": ""}):
        assert places_of(processes, 1.0, environment, ABSENT) == [Place()]


def test_auto_is_one_process_for_each_card_of_the_driver(cards):
    places = places_of("auto", 1.0, {}, cards)
    assert devices(places) == ["0", "1", "2"]
    for place in places:
        assert place.environment["CUDA_VISIBLE_DEVICES"] == place.device
        assert place.environment["CUDA_DEVICE_ORDER"] == "PCI_BUS_ID"  # as the driver counts
    assert places_of("auto", 1.0, {"DEVICE": "cpu"}, cards) == [Place()]


@pytest.mark.parametrize(
    ("visible", "expected"),
    [
        ("5,2", ["5", "2"]),
        (" GPU-beef, GPU-cafe ", ["GPU-beef", "GPU-cafe"]),
        ("4,3,-1,2", ["4", "3"]),  # CUDA stops at the first that is none
    ],
)
def test_auto_takes_the_entries_of_cuda_visible_devices(cards, visible, expected):
    places = places_of("auto", 1.0, {"CUDA_VISIBLE_DEVICES": visible}, cards)
    assert devices(places) == expected
    assert all("CUDA_DEVICE_ORDER" not in place.environment for place in places)


def test_more_processes_than_devices_share_them_in_turn(cards):
    places = places_of(5, 0.9, {"CUDA_VISIBLE_DEVICES": "7,8"}, cards)
    assert devices(places) == ["7", "8", "7", "8", "7"]
    shares = [float(place.environment["MEMORY_SHARE"]) for place in places]
    assert shares == pytest.approx([0.3, 0.45, 0.3, 0.45, 0.3])  # of the device's memory
    assert {place.environment[MEMORY_SHARERS] for place in places} == {"5"}  # of the host's


def test_on_a_cpu_the_processes_divide_cores_and_memory():
    places = places_of(2, 1.0, {}, ABSENT)
    threads = str(max(1, cores() // 2))
    expected = {"MEMORY_SHARE": "0.5", "OMP_NUM_THREADS": threads}
    assert [dict(place.environment) for place in places] == [expected] * 2
    chosen = places_of(2, 1.0, {"OMP_NUM_THREADS": "7"}, ABSENT)
    assert all("OMP_NUM_THREADS" not in place.environment for place in chosen)


def test_a_process_runs_on_the_cores_beside_its_card(cards, monkeypatch):
    nodes = {0: frozenset(range(6)), 1: frozenset(range(6, 8))}
    monkeypatch.setattr("cog_adapt.server.service.places.cores_of_node", nodes.__getitem__)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(1, 8)))
    monkeypatch.setattr("cog_adapt.server.service.places.cores", lambda: 7)
    places = places_of("auto", 1.0, {}, cards)
    assert [place.cores for place in places] == [nodes[0] - {0}, nodes[1], frozenset()]
    assert [place.environment["OMP_NUM_THREADS"] for place in places] == ["2"] * 3
    # CUDA's own order of numbers says nothing of a card's place; a UUID does
    by_number = places_of("auto", 1.0, {"CUDA_VISIBLE_DEVICES": "0,1"}, cards)
    assert [place.cores for place in by_number] == [frozenset()] * 2
    by_name = places_of(2, 1.0, {"CUDA_VISIBLE_DEVICES": "GPU-beef"}, cards)
    assert [place.cores for place in by_name] == [nodes[1]] * 2
    assert [place.environment["OMP_NUM_THREADS"] for place in by_name] == ["1"] * 2


def test_a_numbered_device_for_several_processes_is_refused_by_name():
    environment = {"CUDA_VISIBLE_DEVICES": "0,1", "DEVICE": "cuda:1"}
    with pytest.raises(ConfigError, match=r"DEVICE is 'cuda:1'.* 2 processes.*MODEL_PROCESSES=1"):
        places_of("auto", 1.0, environment, ABSENT)


def test_the_cores_of_a_node_are_read_from_the_host(tmp_path):
    (tmp_path / "node1").mkdir()
    (tmp_path / "node1" / "cpulist").write_text("0-2,8,10-11\n")
    assert cores_of_node(1, tmp_path) == {0, 1, 2, 8, 10, 11}
    assert cores_of_node(2, tmp_path) == set()


def test_processes_on_cards_divide_the_memory_of_the_host(monkeypatch, tmp_path):
    whole = memory_bytes.__wrapped__(tmp_path, tmp_path)
    monkeypatch.setenv(MEMORY_SHARERS, "4")
    assert memory_bytes.__wrapped__(tmp_path, tmp_path) == whole // 4
