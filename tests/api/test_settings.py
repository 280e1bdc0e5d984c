"""Settings: read once, said in a document, never with a password."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
from pydantic import ValidationError

from app.children import child_environment
from app.errors import SettingsError
from app.secret_url import SecretUrl
from app.settings import Settings, load_settings, unknown_variables
from tools.settings_tables import settings_tables

DOCUMENT = Path(__file__).parents[2] / "docs" / "settings.md"
STRANGER = 12345  # a user


@pytest.fixture(autouse=True)
def nothing_set(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)  # no .env but the test's own
    for name in Settings.model_fields:
        monkeypatch.delenv(f"ITC_{name.upper()}", raising=False)


def test_the_document_has_the_tables() -> None:
    assert settings_tables() in DOCUMENT.read_text(), (
        "docs/settings.md is not what `python -m tools.settings_tables` prints"
    )


def test_those_that_matter_first_come_first_and_each_setting_once() -> None:
    tables = settings_tables()
    named = re.findall(r"^\| `ITC_([A-Z_]+)`", tables, re.MULTILINE)
    assert named == [name.upper() for name in Settings.model_fields]
    first, second = tables.split("## ")[1:3]
    assert (first.splitlines()[0], first.count("| `ITC_")) == ("The five that matter first", 5)
    assert second.startswith("Where things are kept\n")


def test_an_operator_has_no_more_than_fifty_seven_to_read() -> None:
    assert len(Settings.model_fields) <= 57, "a bound that protects the service is a constant"


def test_a_variable_and_a_line_of_the_file_are_read(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / ".env").write_text("ITC_PORT=1234\nITC_PREFETCH=7\n")
    monkeypatch.setenv("ITC_PORT", "4321")

    settings = load_settings()

    assert settings.port == 4321  # the environment wins
    assert settings.prefetch == 7


@pytest.mark.parametrize("mode", [0o620, 0o602])
def test_a_file_that_others_may_write_to_is_refused(tmp_path: Path, mode: int) -> None:
    file = tmp_path / ".env"
    file.write_text("ITC_PORT=1234\n")
    file.chmod(mode)

    with pytest.raises(SettingsError, match=r"\.env is not read: others may have written it"):
        load_settings()


def test_another_users_file_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / ".env"
    file.write_text("ITC_PORT=1234\n")
    if os.geteuid() == 0:
        os.chown(file, STRANGER, -1)
    else:
        monkeypatch.setattr(os, "geteuid", lambda: STRANGER)

    with pytest.raises(SettingsError, match=r"\.env is not read: others may have written it"):
        load_settings()


def test_a_link_to_a_file_of_ours_is_refused(tmp_path: Path) -> None:
    """Whoever put it there may have chosen a log of ours that holds a line of theirs."""
    log = tmp_path / "log"
    log.write_text("GET /\nITC_AUTH=none\n")
    (tmp_path / ".env").symlink_to(log)

    with pytest.raises(SettingsError, match=r"\.env is not read: it is a symbolic link"):
        load_settings()


def test_a_pipe_in_the_place_of_a_file_is_refused(tmp_path: Path) -> None:
    """It would be waited for until somebody writes."""
    os.mkfifo(tmp_path / ".env")

    with pytest.raises(SettingsError, match=r"\.env is not read: it is no file"):
        load_settings()


def test_a_file_of_root_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / ".env").write_text("ITC_PORT=1234\n")
    if os.geteuid() == 0:
        monkeypatch.setattr(os, "geteuid", lambda: STRANGER)

    assert load_settings().port == 1234


def test_files_are_the_same_wherever_a_process_runs(tmp_path: Path) -> None:
    said = {
        "data_dir": "data",
        "link_rules": "rules.json",
        "amqp_url": "amqps://u:p@h/?cafile=ca.pem&heartbeat=7&keyfile=/etc/key.pem",
    }
    sqlite = load_settings(database_url="sqlite:///data/my.db?timeout=1", **said)
    postgres = load_settings(database_url="postgresql://h/d?sslmode=require&sslrootcert=a%20b.pem")
    system = load_settings(database_url="postgresql://h/d?sslrootcert=system")

    assert (sqlite.data_dir, sqlite.link_rules) == (tmp_path / "data", tmp_path / "rules.json")
    assert sqlite.exports == tmp_path / "data" / "exports"
    assert sqlite.database.reveal() == f"sqlite:///{tmp_path}/data/my.db?timeout=1"
    assert sqlite.amqp_url.reveal() == (
        f"amqps://u:p@h/?cafile={tmp_path}/ca.pem&heartbeat=7&keyfile=/etc/key.pem"
    )
    assert postgres.database.reveal() == (
        f"postgresql://h/d?sslmode=require&sslrootcert={tmp_path}/a%20b.pem"
    )
    assert system.database.reveal() == "postgresql://h/d?sslrootcert=system"


def test_a_child_gets_paths_that_are_meant_here_and_imports_nothing_from_where_it_runs(
    tmp_path: Path,
) -> None:
    found = {
        "PYTHONPATH": ":lib:/opt/x:",
        "SSL_CERT_FILE": "ca.pem",
        "PATH": "/bin",
        "X": "x",
    }
    assert child_environment(found) == {
        "PYTHONPATH": f"{tmp_path}/lib:/opt/x",
        "SSL_CERT_FILE": f"{tmp_path}/ca.pem",
        "PATH": "/bin",
        "PYTHONSAFEPATH": "1",
    }


def test_settings_do_not_change() -> None:
    with pytest.raises(ValidationError):
        load_settings().port = 1  # type: ignore[misc]


def test_what_is_unset_lies_under_the_data_folder(tmp_path: Path) -> None:
    settings = load_settings(data_dir=tmp_path)

    assert settings.database.reveal() == f"sqlite:///{tmp_path}/itc.db"
    assert settings.exports == tmp_path / "exports"


def test_the_management_api_is_asked_as_the_capturing_account_unless_told_otherwise() -> None:
    same = load_settings(amqp_url="amqp://itc:p%40ss@broker")
    other = load_settings(amqp_url="amqp://itc:x@broker", management_url="http://m:n@broker:15672")

    assert same.management_credentials == ("itc", "p@ss")
    assert other.management_credentials == ("m", "n")
    assert other.management_url.without_credentials == "http://broker:15672"


@pytest.mark.parametrize(
    ("name", "value", "names"),
    [
        ("PORT", "http", "ITC_PORT: "),
        ("PORT", "70000", "ITC_PORT: "),
        ("AUTH", "open", "ITC_AUTH: "),
        ("AMQP_URL", "localhost", "ITC_AMQP_URL: "),
        ("AMQP_URL", "http://u:hush@broker", "ITC_AMQP_URL: "),
        ("AMQP_URL", "amqp://u:hu/sh@broker", "ITC_AMQP_URL: "),
        ("MANAGEMENT_URL", "http://u:hush@:15672", "ITC_MANAGEMENT_URL: "),
        ("MANAGEMENT_URL", "http://u:hush@[::1", "ITC_MANAGEMENT_URL: "),
        ("DATABASE_URL", "mysql://u:hush@host/db", "ITC_DATABASE_URL: "),
        ("PREFETCH", "100000", "ITC_PREFETCH: "),
        ("SPARK_MEMORY", "lots", "ITC_SPARK_MEMORY: "),
        ("SPARK_MASTER", "spark://huge:7077", "ITC_SPARK_MASTER names a cluster, so ITC_SPARK_S"),
        ("CORS_ORIGINS", "*", "ITC_CORS_ORIGINS: "),
        ("CORS_ORIGINS", "https://ops.example.org/", "ITC_CORS_ORIGINS: "),
    ],
)
def test_an_invalid_value_is_named_in_one_line_and_not_shown(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str, names: str
) -> None:
    monkeypatch.setenv(f"ITC_{name}", value)

    with pytest.raises(SettingsError) as raised:
        load_settings()

    assert str(raised.value).startswith(names)
    assert "\n" not in str(raised.value)
    assert "hu" not in str(raised.value).removeprefix(names)


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.5", "example.org", ""])
def test_an_open_service_listens_on_loopback_only(host: str) -> None:
    with pytest.raises(SettingsError, match="loopback"):
        load_settings(auth="none", host=host)


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.8.8", "::1", "localhost"])
def test_an_open_service_listens_on_loopback(host: str) -> None:
    assert load_settings(auth="none", host=host).host == host


def test_a_password_shows_nowhere() -> None:
    settings = load_settings(
        amqp_url="amqp://u:hush@broker",
        management_url="http://u:hush@broker:15672",
        database_url="postgresql://u:hush@host/db",
        spark_remote="sc://spark:15002/;user_id=u;token=hush",
        spark_secret="hush",
    )

    for shown in (
        repr(settings),
        str(settings),
        str(settings.amqp_url),
        f"{settings.database}",
        f"{settings.spark_remote} {settings.spark_secret}",
    ):
        assert "hush" not in shown
    assert settings.portable()["spark_secret"] == "hush"
    assert str(settings.spark_remote) == "sc://spark:15002/;user_id=u;token=***"
    assert str(settings.amqp_url) == "amqp://u:***@broker"
    assert settings.amqp_url.reveal() == "amqp://u:hush@broker"


def test_a_url_without_password_shows_as_it_is() -> None:
    assert str(SecretUrl("sqlite:////data/itc.db")) == "sqlite:////data/itc.db"


def test_a_misspelt_variable_is_found() -> None:
    assert unknown_variables({"ITC_PROT": "1", "ITC_PORT": "1", "ITC_URL": "x", "HOME": "/"}) == [
        "ITC_PROT"
    ]


def test_the_broker_s_address_keeps_what_else_it_says() -> None:
    url = "amqps://u:p@broker/?cafile=/etc/ca.pem"
    assert Settings(amqp_url=SecretUrl(url)).broker == f"{url}&heartbeat=10"
    chosen = f"{url}&heartbeat=7"
    assert Settings(amqp_url=SecretUrl(chosen)).broker == chosen


@pytest.mark.parametrize("host", ["a..b", "x" * 64])
def test_a_broker_whose_name_no_host_can_have_is_refused(
    host: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ITC_AMQP_URL", f"amqp://{host}:5672")
    with pytest.raises(SettingsError, match="a name that no host can have"):
        load_settings()
