"""What a campaign leaves on the disk, and what of it survives."""

from __future__ import annotations

from pathlib import Path

import pytest

from chaos.errors import InputError
from orchestrator.campaigns.directory import CampaignDir, create_campaign_dir, open_campaign_dir
from tests.unit.campaigns.records import ended, failed, record

DONE = ended(record(1), failed(2, "H1: x"), record(3))


@pytest.fixture
def campaign(tmp_path: Path) -> CampaignDir:
    found = create_campaign_dir(tmp_path, "small")
    found.add_part(DONE[:2])
    found.add_part(DONE[2:])
    return found


def test_results_come_back(campaign: CampaignDir) -> None:
    """Shows that what was written is read, part by part, in its order."""
    assert list(CampaignDir(campaign.path).done()) == DONE


def test_a_torn_last_part_is_dropped(campaign: CampaignDir) -> None:
    """Shows that the runs of a part that was not written to its end are not counted, so that they are done again; and
    that the next part takes its place."""
    last = campaign.results / "part-00001.parquet"
    last.write_bytes(last.read_bytes()[:-40])
    assert list(campaign.done()) == DONE[:2]
    assert campaign.dropped.startswith("part-00001.parquet was torn, and is dropped: its runs are done again")
    campaign.add_part(DONE[2:])
    assert list(CampaignDir(campaign.path).done()) == DONE


def test_a_part_that_was_not_renamed_is_nothing(campaign: CampaignDir) -> None:
    """Shows that what a kill left aside is in nobody's way."""
    (campaign.results / "part-00002.tmp").write_bytes(b"PAR1")
    assert list(campaign.done()) == DONE
    assert campaign.dropped == ""


def test_other_damage_is_an_error(campaign: CampaignDir) -> None:
    """Shows that a part which is damaged or missing before the last is not passed over."""
    first = campaign.results / "part-00000.parquet"
    whole = first.read_bytes()
    first.write_bytes(whole[:-40])
    with pytest.raises(InputError, match=r"part-00000\.parquet: damaged: .*restore it from a copy"):
        list(campaign.done())
    first.unlink()
    with pytest.raises(InputError, match=r"part-00000\.parquet is missing, but there is a part-00001\.parquet"):
        list(campaign.done())


def test_one_at_a_time(campaign: CampaignDir) -> None:
    """Shows that two drivers cannot work on one campaign, and that a run kept halfway is cleared away."""
    half = campaign.aside / "half"
    half.mkdir(parents=True)
    with campaign.held():
        assert not half.exists()
        with pytest.raises(InputError, match="another krift is at work on this campaign"):
            with CampaignDir(campaign.path).held():
                pass
    with campaign.held():
        pass


def test_finding_a_campaign(campaign: CampaignDir, tmp_path: Path) -> None:
    """Shows a campaign by its path, by its name, and as the latest; and the error for what is none."""
    name = campaign.path.name
    for which in (str(campaign.path), name, "latest"):
        assert open_campaign_dir(tmp_path, which).path == campaign.path
    with pytest.raises(InputError, match=f"no such campaign; did you mean {name}"):
        open_campaign_dir(tmp_path, name[:-1])
    with pytest.raises(InputError, match=r"campaign\.json: there is no such file"):
        campaign.read_asked()
