"""Goal: the shards of a cluster share its partitions and groups without a rest, and a wrong text is refused."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from groupledger.jobs.process.errors import InputError
from groupledger.jobs.process.settings import load_settings
from groupledger.jobs.process.shard import WHOLE, Shard

if TYPE_CHECKING:
    from pathlib import Path

    from groupledger.jobs.process.settings import Settings


@given(st.integers(1, 60), st.integers(1, 60), st.text(max_size=20))
def test_each_group_is_in_one(count: int, partition_count: int, group_id: str) -> None:
    """Goal: each partition is in one shard of all, and a group where its partition is."""
    shards = [Shard.parse(f"{number}/{count}") for number in range(1, count + 1)]
    owners = [[each for each in shards if each.has(partition)] for partition in range(partition_count)]
    assert [len(each) for each in owners] == [1] * partition_count
    assert len([each for each in shards if each.has_group(group_id, partition_count)]) == 1


def settings_of(folder: Path, shard: str) -> Settings:
    (folder / "settings.yaml").write_text(yaml.safe_dump({"kafka": {"shard": shard}}))
    return load_settings(folder / "settings.yaml")


def test_the_setting(tmp_path: Path) -> None:
    """Goal: a ledger follows the shard of its settings, and without one all partitions."""
    assert load_settings().kafka.own == WHOLE
    assert settings_of(tmp_path, "2/4").kafka.own == Shard(2, 4)
    assert WHOLE.has(17)


@pytest.mark.parametrize("text", ["0/4", "5/4", "1", "1/", "/4", "a/b", "-1/4", "1/4/2", "\u0661/4", "", "1.0/2"])
def test_what_is_no_shard(tmp_path: Path, text: str) -> None:
    """Goal: a wrong text is refused with the form that is expected."""
    with pytest.raises(InputError, match=r"kafka\.shard.*no shard: write 1/4, 2/4, 3/4 and 4/4"):
        settings_of(tmp_path, text)
