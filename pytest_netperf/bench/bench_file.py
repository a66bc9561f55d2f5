"""Reads a bench file (TOML) into a `Bench`, validated whole: every mistake is reported at once.

The file says what exists: a ``[station]``, ``[[device]]`` tables, and in each its ``[[device.link]]`` tables. A mistake
reads ``bench.toml: device[1].link[0].speed: 2.5 has no unit; …``, with positions counted from 0.
"""

from __future__ import annotations

import hashlib
import re
import tomllib
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from pytest_netperf.bench.builtin import host_name
from pytest_netperf.bench.device_login import read_login
from pytest_netperf.bench.device_state import read_state
from pytest_netperf.bench.fault_table import parse_fault
from pytest_netperf.bench.identity import read_identity
from pytest_netperf.bench.model import DEFAULT_MTU, MTU_RANGE, TOPOLOGIES, Bench, Device, Fault, LinkSpec, Station
from pytest_netperf.bench.port_table import read_port, speeds_of_ports, unlike_their_topology
from pytest_netperf.bench.toml_table import TomlTable, shown
from pytest_netperf.errors import BenchError
from pytest_netperf.quantities import parse_speed

__all__ = ["load_bench", "parse_bench", "read_bench"]

_MAX_NAME = 100
_TOML_POSITION = re.compile(r"(?P<what>.*) \(at line (?P<line>\d+), column (?P<column>\d+)\)", re.DOTALL)


def load_bench(path: str | Path) -> Bench:
    """The bench that this file describes; `BenchError` with all mistakes when it cannot be read or understood."""
    return _whole(read_bench(path))


def read_bench(path: str | Path) -> tuple[Bench, list[str]]:
    """The bench as far as it was understood, and every mistake, each with the file; no test may run on one with any.

    Raises BenchError when the file cannot be read, or is no TOML.
    """
    where = str(path)
    file = Path(path)
    try:
        if file.is_dir():
            raise BenchError(f"{where}: is a directory; give a bench file (TOML)")
        if file.exists() and not file.is_file():
            raise BenchError(f"{where}: is not a regular file; give a bench file (TOML)")
        raw = file.read_bytes()
    except FileNotFoundError:
        raise BenchError(f"{where}: there is no such bench file") from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise BenchError(f"{where}: the bench file cannot be read: {reason}") from None
    try:
        # A byte order mark is what some editors put first; TOML itself does not know it.
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise BenchError(
            f"{where}: line {line}: byte 0x{raw[error.start]:02x} is not UTF-8; save the bench file as UTF-8"
        ) from None
    return _bench(_toml(text, where), where, hashlib.sha256(raw).hexdigest())


def parse_bench(text: str, where: str | Path = "bench") -> Bench:
    """The bench that this TOML text describes; ``where`` stands for the file in messages."""
    sha256 = hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()
    return _whole(_bench(_toml(text, str(where)), str(where), sha256))


def _whole(read: tuple[Bench, list[str]]) -> Bench:
    bench, mistakes = read
    if mistakes:
        raise BenchError("\n".join(mistakes))
    return bench


def _toml(text: str, where: str) -> dict[str, object]:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        position = _TOML_POSITION.fullmatch(str(error))
        if position is None:
            raise BenchError(f"{where}: broken TOML: {error}") from None
        line, column = int(position["line"]), int(position["column"])
        source = text.replace("\r\n", "\n").split("\n")[line - 1].strip()
        raise BenchError(
            f"{where}: line {line}, column {column}: broken TOML: {position['what']}"
            + (f"; the line is: {shown(source)}" if source else "")
        ) from None
    except (ValueError, RecursionError) as error:
        raise BenchError(f"{where}: broken TOML: {error}") from None


def _bench(data: dict[str, object], where: str, sha256: str) -> tuple[Bench, list[str]]:
    mistakes: list[str] = []
    root = TomlTable(data, "", mistakes)
    station = _station(root.table("station"), Path(where).parent)
    devices = tuple(_device(table) for table in root.tables("device"))
    if "device" not in data:
        root.wrong("device", "the bench is empty; describe at least one device in a [[device]] table")
    elif data["device"] == []:
        root.wrong("device", "the list is empty; a bench needs at least one device")
    _repeated(mistakes, "device", "serial", (device.serial for device in devices))
    root.close()
    bench = Bench(station=station, devices=devices, path=where, sha256=sha256)
    return bench, [f"{where}: {mistake}" for mistake in mistakes]


def _station(table: TomlTable | None, folder: Path) -> Station:
    """A station without a name is called after its host, like that of the built-in bench."""
    if table is None:
        return Station(name=host_name())
    name = table.text("name")
    location = table.text("location")
    reference = tuple(_reference(link) for link in table.tables("reference"))
    _repeated(table.mistakes, "station.reference", "name", (link.name for link in reference))
    baselines = _paths(table, "baselines", folder)
    profiles = table.text("profiles")
    table.close()
    return Station(
        name=name or host_name(),
        location=location,
        reference=reference,
        baselines=baselines,
        profiles=None if profiles is None else str(folder / profiles),
    )


def _paths(table: TomlTable, key: str, folder: Path) -> tuple[str, ...]:
    """A list of files or folders, relative to the folder of the bench file."""
    value = table.take(key)
    if value is None:
        return ()
    if not isinstance(value, list) or not value or not all(isinstance(each, str) and each.strip() for each in value):
        table.wrong(key, f'{shown(value)} is not a list of files, such as {key} = ["golden.toml"]')
        return ()
    return tuple(str(folder / each) for each in value)


def _reference(table: TomlTable) -> LinkSpec:
    """A link of the tester itself: one cable, no device, nothing wrong with it."""
    link = _link(table)
    if link.topology != "pair":
        table.wrong("topology", f'{shown(link.topology)} is not a cable only; a reference is a "pair", or leave it out')
    if link.fault is not None:
        table.wrong("fault", "a reference shows what the tester can do, so it has no fault; remove it")
    if not link.shaped:
        table.wrong("shaped", "an unshaped pair is measured in any case; give the speed of the cable instead")
    if link.mtu is not None:
        table.wrong("mtu", "a reference is measured at the MTUs that the tests need; remove it")
    return link


def _device(table: TomlTable) -> Device:
    serial = _folder_name(table, "serial")
    model = table.text("model")
    batch = table.text("batch")
    identity = read_identity(table)
    links = tuple(_link(link) for link in table.tables("link"))
    states = tuple(read_state(state) for state in table.tables("state"))
    login = read_login(table, states)
    for key, names in (("link", [link.name for link in links]), ("state", [state.name for state in states])):
        _repeated(table.mistakes, f"{table.path}.{key}", "name", names)
    table.close()
    return Device(serial=serial, model=model, batch=batch, **identity, **login, links=links, states=states)


def _link(table: TomlTable) -> LinkSpec:
    name = _folder_name(table, "name")
    topology = table.choice("topology", TOPOLOGIES, "pair")
    simulated = table.flag("simulated", default=False)
    shaped = table.flag("shaped", default=True)
    speed = table.quantity("speed", parse_speed, "2.5G")
    mtu = table.integer("mtu", *MTU_RANGE, "bytes")
    media = table.text("media")
    cable = table.text("cable")
    mistakes_before = len(table.mistakes)
    ends = {end: read_port(table.table(end), simulated=simulated is True) for end in "ab"}
    good_ports = len(table.mistakes) == mistakes_before
    speed, ends = speeds_of_ports(table, topology, speed, ends, shaped=shaped is not False)
    a, b = ends.values()
    device_mtu = table.integer("device_mtu", *MTU_RANGE, "bytes")
    fault = _link_fault(table, speed if shaped else None, DEFAULT_MTU if mtu is None else mtu, simulated is False)
    if shaped is not False and speed is None and not table.given("speed"):
        table.wrong("speed", 'is missing; write the speed that the link is sold for, such as speed = "2.5G"')
    if shaped is False and simulated is False:
        table.wrong("shaped", "only a simulated link can be unshaped; add simulated = true or remove shaped")
    of_device = {
        "device_mtu": device_mtu,
        **{f"{end}.device_mtu": port and port.device_mtu for end, port in ends.items()},
    }
    for key, size in of_device.items():
        if size is not None and (topology == "pair" or simulated is False):
            way_out = 'add topology = "routed" and simulated = true'
            table.wrong(key, f"is of a simulated device in the middle; {way_out}")
    vlans = {end: port and port.vlan for end, port in ends.items()}
    for end, vlan in vlans.items():
        if vlan is not None and (topology != "switched" or simulated is False):
            way_out = 'add topology = "switched" and simulated = true'
            table.wrong(f"{end}.vlan", f"is of a simulated switch; {way_out}")
        elif vlan is None and any(vlans.values()):
            table.wrong(f"{end}.vlan", "is missing, and the other port is in one; write it, such as vlan = 10")
    if simulated is False:
        for end in "ab":
            if not table.given(end):
                table.wrong(
                    end,
                    "is missing; a link that is not simulated needs both its ports, "
                    f'such as {end} = {{ port = "pci-0000:04:00.0" }}; or write simulated = true',
                )
    if (
        a is not None
        and b is not None
        and a.port
        and b.port
        and b.ssh is None
        and (a.port.lower(), a.namespace) == (b.port.lower(), b.namespace)
    ):
        table.wrong("b", f"{shown(b.port)} is the port of end a too; a link joins two ports")
    if good_ports and a is not None and b is not None and simulated is False:
        for key, problem in unlike_their_topology(topology, a, b):
            table.wrong(key, problem)
    table.close()
    return LinkSpec(
        name=name,
        topology=topology,
        speed_bps=speed,
        mtu=mtu,
        media=media,
        cable=cable,
        simulated=bool(simulated),
        shaped=bool(shaped),
        fault=fault,
        device_mtu=device_mtu,
        a=a,
        b=b,
    )


def _link_fault(table: TomlTable, speed_bps: float | None, mtu: int, physical: bool) -> Fault | None:
    data = table.take("fault")
    if data is None:
        return None
    path = table.path_of("fault")
    if physical:
        table.wrong("fault", "only a simulated link can be made faulty; add simulated = true or remove fault")
    fault, mistakes = parse_fault(data, path)
    table.mistakes.extend(mistakes)
    problem = fault.problem(speed_bps, mtu) if fault and not physical else None
    if problem:
        table.mistakes.append(f"{path}.{problem[0]}: {problem[1]}")
    return fault


def _folder_name(table: TomlTable, key: str) -> str:
    """A name that becomes a folder of the results and a part of test ids: it must not lead out of either."""
    name = table.text(key, required=True) or ""
    if not name:
        return ""
    problem = None
    if len(name) > _MAX_NAME or len(name.encode("utf-8", "replace")) > 255:
        problem = f"is {len(name)} characters long; at most {_MAX_NAME} characters (and 255 bytes) are allowed"
    elif name.startswith("."):
        problem = "starts with a dot"
    elif not name.isprintable():
        problem = "contains control or invisible characters"
    elif "/" in name or "\\" in name:
        problem = "contains a slash"
    elif "::" in name or "[" in name or "]" in name:
        problem = "contains '::', '[' or ']', which pytest's test ids use themselves"
    elif name != name.strip():
        problem = "starts or ends with a space"
    if problem:
        table.wrong(key, f"{shown(name)} {problem}; it names a folder of the results and a part of test ids")
    return name


def _repeated(mistakes: list[str], path: str, key: str, names: Iterable[str]) -> None:
    listed = list(names)
    for name, count in Counter(listed).items():
        if name and count > 1:
            places = [f"{path}[{index}]" for index, other in enumerate(listed) if other == name]
            mistakes.append(
                f"{places[-1]}.{key}: {shown(name)} is used {count} times ({', '.join(places)}); make it unique"
            )
