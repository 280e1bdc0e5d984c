"""What a newcomer looks for in README, and what has a page of its own."""

from __future__ import annotations

import re
import struct
import subprocess

import pytest

from tests.docs.documents import CHECKOUT, prose

README = CHECKOUT / "README.md"
DASHBOARD = CHECKOUT / "docs" / "dashboard.md"
MEASUREMENTS = CHECKOUT / "docs" / "measurements.md"
UPGRADING = CHECKOUT / "docs" / "upgrading.md"
INSTALLING = CHECKOUT / "docs" / "install.md"
COMPARISON = CHECKOUT / "docs" / "comparison.md"
SCREENSHOTS = CHECKOUT / "docs" / "screenshots"
PICTURE = re.compile(r"!\[([^]]+)\]\(([^)]+)\)")
LARGEST = 80_000  # bytes of a picture


def headings() -> list[str]:
    return re.findall(r"^## (.+)$", prose(README), re.MULTILINE)


def test_it_says_in_three_lines_what_it_is_for() -> None:
    title, first, *_ = README.read_text().split("\n\n")
    assert title == "# rabbitmq-itc"
    assert len(first.splitlines()) <= 3


def test_it_is_short_and_says_when_not_to_use_it_before_how_to_try_it() -> None:
    assert headings() == ["When not to use it", "Try it", "Documents"]
    assert len(README.read_text().splitlines()) < 110


def test_it_names_every_way_to_try_it() -> None:
    [start] = re.findall(r"^## Try it\n(.*?)^## ", README.read_text(), re.MULTILINE | re.DOTALL)
    for command in ("docker compose up", "pip install", "make demo", "make test", "curl"):
        assert re.search(rf"^{command}", start, re.MULTILINE), command


def test_figures_have_a_page_of_their_own_where_each_section_has_its_command() -> None:
    assert "python -m bench" not in README.read_text()
    sections = re.split(r"^## ", MEASUREMENTS.read_text(), flags=re.MULTILINE)[1:]
    assert len(sections) >= 6
    for section in sections:
        command = re.search(r"`python -m (bench|drills|tests\.web)\.\w+", section)
        assert command, section.splitlines()[0]


@pytest.mark.parametrize("purpose", ["runtime", "test"])
def test_the_sizes_are_those_that_the_installer_goes_by(purpose: str) -> None:
    said = subprocess.run(
        ["bash", "-c", "source tools/prerequisites.sh; python=$(sizes_of_python_packages $0)\n"
         "echo $python $(sizes_of_system_packages $0)", purpose],
        cwd=CHECKOUT,
        capture_output=True,
        text=True,
        check=True,
    )  # fmt: skip
    loaded, kept, between, from_apt, system = (int(word) for word in said.stdout.split())
    command = {"runtime": "make demo", "test": "make test"}[purpose]
    gigabytes = [f"{(size + system) / 1000:.1f} GB" for size in (between, kept)]
    row = f"| `{command}` | {loaded} MB | {from_apt} MB | {' | '.join(gigabytes)} |"
    assert row in INSTALLING.read_text()


def test_every_view_is_listed_and_has_its_picture() -> None:
    route = (CHECKOUT / "web" / "app" / "core" / "route.js").read_text()
    views = {label: name for name, label in re.findall(r'\["([a-z-]+)", "([^"]+)"\]', route)}
    rows = re.findall(r"^\| ([\w-]*) \| ([\w -]*) \|", DASHBOARD.read_text(), re.MULTILINE)
    listed = {view or tab for tab, view in rows} - {"tab", "view"}
    assert listed == {*views}
    del views["Rules"]  # twice: the settings have what stands beside the conversations
    views |= {"Rules": "learn", "Failures": "failures"}  # a saved filter of the conversations
    pictures = {alt.partition(":")[0]: path for alt, path in PICTURE.findall(DASHBOARD.read_text())}
    assert pictures == {label: f"screenshots/{name}.png" for label, name in views.items()}


def test_pictures_are_small_and_of_one_size() -> None:
    sizes = set()
    for picture in SCREENSHOTS.iterdir():
        data = picture.read_bytes()
        assert data.startswith(b"\x89PNG\r\n\x1a\n")
        assert len(data) < LARGEST, picture.name
        sizes.add(struct.unpack(">II", data[16:24]))
    assert len(sizes) == 1


@pytest.mark.parametrize(
    "tool", ["rabbitmq_tracing", "rabtap", "ServicePulse", "Jaeger", "Tempo", "ShiViz"]
)
def test_the_comparison_says_when_to_use_what_instead(tool: str) -> None:
    _, section = COMPARISON.read_text().split("## Use that instead when …")
    assert re.search(rf"^- \*\*`?{tool}`?\*\*: ", section, re.MULTILINE)


def test_the_versions_that_the_image_has_are_among_the_tested_ones() -> None:
    image = (CHECKOUT / "Dockerfile").read_text()
    [python] = {*re.findall(r"^ARG PYTHON=python:(\d+\.\d+)\.", image, re.MULTILINE)}
    [java] = re.findall(r"openjdk-(\d+)-jre", image)
    tested = UPGRADING.read_text()
    assert re.search(rf"^\| Python \|.*\b{python}, as in the image", tested, re.MULTILINE)
    assert re.search(rf"^\| Java, for chains \| {java} \|", tested, re.MULTILINE)
