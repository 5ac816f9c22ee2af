"""Our package among a rival's libraries."""

import sys

import pytest

from bench import environments

VERSION = f"python{sys.version_info.major}.{sys.version_info.minor}"


@pytest.fixture
def site(tmp_path, monkeypatch):
    """The site-packages of a rival's environment, and of ours, which says where it is."""
    rival = tmp_path / "rival"
    (rival / "lib" / VERSION / "site-packages").mkdir(parents=True)
    (tmp_path / "plasmon").mkdir()
    ours = tmp_path / "ours"
    ours.write_text(f"#!/bin/sh\necho {tmp_path / 'plasmon'}\n")
    ours.chmod(0o755)
    monkeypatch.setattr(environments, "rival", lambda name: rival / "bin" / "python")
    monkeypatch.setattr(environments, "our_package", lambda: ours)
    environments.with_ours.cache_clear()
    yield rival / "lib" / VERSION / "site-packages"
    environments.with_ours.cache_clear()


def test_our_package_is_linked_into_a_rivals_environment(site, tmp_path):
    assert environments.with_ours("objects") == tmp_path / "rival" / "bin" / "python"
    assert (site / "plasmon").resolve() == tmp_path / "plasmon"


def test_a_link_that_leads_nowhere_is_replaced(site, tmp_path):
    (site / "plasmon").symlink_to(tmp_path / "gone")
    environments.with_ours("objects")
    assert (site / "plasmon").resolve() == tmp_path / "plasmon"


def test_a_package_that_cannot_be_imported_is_a_reason(site, tmp_path):
    (tmp_path / "ours").write_text("#!/bin/sh\necho no such module >&2\nexit 1\n")
    with pytest.raises(environments.MissingError, match="no such module"):
        environments.with_ours("objects")
