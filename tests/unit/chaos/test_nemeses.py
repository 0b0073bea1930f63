"""Nemesis files: found by name or path, read with every mistake in its line, and their published schema."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from chaos import sources
from chaos.errors import InputError
from chaos.incidents import library as incidents
from chaos.nemesis import library
from chaos.nemesis.draw import bearable, draw
from chaos.nemesis.model import json_schema
from chaos.nemesis.patterns import PATTERNS
from chaos.nemesis.schema import SCHEMA_FILE, schema_text
from chaos.nemesis.situations.groups import GROUPS
from chaos.nemesis.situations.metadata import KEPT, PUSHED
from chaos.nemesis.situations.tiers import TIERS
from chaos.nemesis.situations.transactions import OF_HASTY, OF_LASTING_EPOCHS, OF_PROCESSORS, TRANSACTIONS
from chaos.scenario.durations import parse_duration_us
from chaos.scenario.resolve import resolve
from tests.unit.chaos.nemesis_text import SMALL

ROOT = Path(__file__).parents[3]


def test_a_nemesis_is_found_by_name_or_path(tmp_path: Path) -> None:
    """Shows that names of incidents and nemeses, and files that are either, are found in one place."""
    path = tmp_path / "mine.yaml"
    path.write_text(SMALL, encoding="utf-8")
    mine = sources.find(str(path))
    assert (mine.name, mine.variants, mine.about) == ("mine", [], "The leader goes down.")
    assert resolve(mine.loaded(3), "", 3).seed == 3
    assert sources.find("everything").name == "everything"
    assert sources.find("kip-207").variants == ["off", "seed", "kafka"]
    path.write_text(incidents.text("baseline"), encoding="utf-8")
    assert sources.find(str(path)).loaded(None).scenario == incidents.load("baseline").scenario


def test_what_is_not_found_is_told_with_the_nearest_name() -> None:
    """Shows that the suggestion may be an incident or a nemesis."""
    with pytest.raises(InputError, match=r"no such scenario or nemesis; .* mean kip-207\? Expected a file, or a name"):
        sources.find("kip207")
    with pytest.raises(InputError, match="did you mean everything"):
        sources.find("evrything")
    with pytest.raises(InputError, match=r"no such incident or nemesis.*did you mean quorum"):
        sources.text("quorun")
    assert sources.text("quorum") == library.text("quorum")
    assert sources.text("kip-207") == incidents.text("kip-207")


def test_a_nemesis_needs_a_seed() -> None:
    """Shows that nothing is drawn from a seed that nobody gave."""
    with pytest.raises(InputError, match="everything is a nemesis, which draws a scenario from a seed; expected"):
        sources.find("everything").loaded(None)


WRONG = {
    "unknown fault": ("faults: {crash: 1}", "faults: {crush: 1}", "4: faults.crush: unknown fault or action crush"),
    "no weight": ("faults: {crash: 1}", "faults: {crash: 0}", "4: faults: nothing in it has any weight"),
    "weight below 0": ("faults: {crash: 1}", "faults: {crash: -1}", "4: faults.crash: -1 is out of range"),
    "weight in words": (
        "faults: {crash: 1}",
        "faults: {crash: often}",
        "4: faults.crash: 'often' is of the wrong",
    ),
    "unknown key": ("", "shap: {voters: {3: 1}}", "5: shap: unknown key; did you mean shape? Expected one of schema"),
    "count": ("", "shape: {voters: {three: 1}}", "5: shape.voters.three: 'three' is not a number"),
    "too many voters": ("", "shape: {voters: {10: 1}}", "5: shape.voters.10: 10 voters; expected 1 to 9"),
    "feature": ("", "features: {kip-208: {kafka: 1}}", "5: features.kip-208: unknown feature kip-208"),
    "feature value": ("", "features: {kip-207: {on: 1}}", "5: features.kip-207.on: 'on' is not a value of kip-207"),
    "unprotected": ("", "features: {kip-207: {off: 1}}", "5: features.kip-207.off: off protects nothing"),
    "config key": ("", "config: {min.isr: {1: 1}}", "5: config.min.isr: unknown configuration key min.isr"),
    "config value": ("", "config: {num.io.threads: {0: 1}}", "5: config.num.io.threads: 0 is not a value"),
    "bootstrap server": (
        "",
        "config: {controller.quorum.bootstrap.servers: {'controller-1,controller-4': 1}}",
        "5: config.controller.quorum.bootstrap.servers: unknown controller controller-4; did you mean controller-3?",
    ),
    "trigger": ("", "chaos: {seen: {comitted: 1}}", "5: chaos.seen.comitted: unknown trigger comitted"),
    "pattern": ("", "chaos: {pattern: {cornred: 1}}", "5: chaos.pattern.cornred: unknown pattern cornred"),
    "duration": ("", "chaos: {lasts: {3: 1}}", "5: chaos.lasts.3: '3' is not a range of durations"),
    "range backwards": ("", "chaos: {lasts: {3s-1s: 1}}", "5: chaos.lasts.3s-1s: '3s-1s' is empty"),
    "too short": ("", "chaos: {duration: {10ms-1s: 1}}", "5: chaos.duration: the chaos is too short"),
    "too long": ("", "chaos: {duration: {1h-30h: 1}}", "5: chaos.duration: the chaos is too long"),
    "too many faults": ("", "chaos: {number: {101: 1}}", "5: chaos.number.101: 101 faults; expected at most 100"),
    "rate": ("", "workload: {rate: {fast: 1}}", "5: workload.rate.fast: 'fast' is not a rate"),
    "too often": ("", "workload: {every: {10us: 1}}", "5: workload.every: a prober asks too often"),
    "timestamp": ("", "workload: {timestamp: {now: 1}}", "5: workload.timestamp.now: unknown timestamp now"),
    "chance": ("", "like: {chance: {often: 1}}", "5: like.chance.often: 'often' is not a chance"),
    "point": ("", "like: {point: {after-wrote: 1}}", "5: like.point.after-wrote: unknown point after-wrote"),
    "target": ("", "targets: {leder: 1}", "5: targets.leder: 'leder' is not one of its values"),
    "clock": ("", "like: {clock: {-3s: 1}}", "5: like.clock.-3s: '+-3s' is not an offset"),
    "clock rate": ("", "like: {clock-rate: {fast: 1}}", "5: like.clock-rate.fast: 'fast' is not a change of rate"),
    "group": ("", "like: {bounced: {most: 1}}", "5: like.bounced.most: unknown group most"),
    "retries": ("", "workload: {retries: {few: 1}}", "5: workload.retries: 'few' is not a value of retries; expected"),
    "untested": (
        "",
        "untested: {H99: why}",
        "5: untested.H99: H99 is not an invariant; expected the id",
    ),
    "no reason": ("", "untested: {H2: ''}", "5: untested.H2: "),
    "untested without": ("", "untested: [H2]", "5: untested: "),
    "no purpose": ("about: The leader goes down.\n", "", "1: about: the key is missing"),
}


@pytest.mark.parametrize(("old", "new", "message"), WRONG.values(), ids=WRONG)
def test_a_wrong_nemesis_gets_its_message(old: str, new: str, message: str) -> None:
    """Shows file, line, key and what is wrong, for one mistake a file."""
    text = SMALL.replace(old, new) if old else f"{SMALL}{new}\n"
    with pytest.raises(InputError) as caught:
        sources.from_text(text, "mine.yaml")
    assert len(caught.value.mistakes) == 1
    assert str(caught.value).startswith(f"mine.yaml:{message}")


def test_a_small_nemesis_is_enough() -> None:
    """Shows that everything but the faults has a default."""
    nemesis = sources.from_text(SMALL, "mine.yaml")
    kinds = {kind for seed in range(1, 21) for kind in _kinds(nemesis.loaded(seed).document.value["chaos"])}
    assert kinds == {"crash"}


def _kinds(chaos: list[dict[str, dict[str, object]]]) -> list[str]:
    return [kind for entry in chaos for kind in entry.get("fault", entry.get("action", {}))]


@pytest.mark.parametrize(
    ("levels", "spare", "known"), [("1: 1", "1: 1, 2: 1", 3), ("1: 1, 0: 1", "1: 1", 2), ("1: 1", "0: 1, 1: 0", 2)]
)
def test_bootstrap_servers_are_those_that_every_drawn_cluster_has(levels: str, spare: str, known: int) -> None:
    """Shows that the fewest voters count, and the fewest spare controllers where kraft.version is 1 in all clusters."""
    text = f"{SMALL}shape: {{voters: {{5: 1, 2: 1, 1: 0}}, spare-controllers: {{{spare}}}}}\n"
    text += f"features: {{kraft.version: {{{levels}}}}}\n"
    servers = "config: {{controller.quorum.bootstrap.servers: {{controller-{}: 1}}}}\n"
    nemesis = sources.from_text(text + servers.format(known), "mine.yaml")
    assert all(nemesis.loaded(seed) for seed in range(1, 11))
    with pytest.raises(InputError, match=f"unknown controller controller-{known + 1};"):
        sources.from_text(text + servers.format(known + 1), "mine.yaml")


def test_no_bounce_makes_voters_forget_their_directories() -> None:
    """Shows that servers never fetch in the seed's form where voters are known by their directories, be it only after a
    restart, and that they do where voters are not."""
    text = SMALL.replace("crash: 1", "rolling-bounce: 1") + "like: {bounced: {all: 1}, bounce-to: {features: 1}}\n"
    forms = set()
    for level in (0, 1):
        features = f"features: {{kraft.version: {{{level}: 1}}, kip-595.divergence: {{seed: 1}}}}\n"
        document = sources.from_text(text + features, "mine.yaml").loaded(1).document.value
        bounces = [entry["action"]["rolling-bounce"]["features"] for entry in document["chaos"]]
        forms |= {(level, each["kip-595.divergence"]) for each in (document["features"], *bounces)}
    assert forms == {(0, "seed"), (1, "kafka")}


def test_all_are_healed_where_voters_may_raise_their_epoch_alone() -> None:
    """Shows that no core alone is healed, and that L2 may be violated, where leaders stand at once, be it only after a
    restart; and that nothing is conceded elsewhere."""
    text = SMALL.replace("crash: 1", "rolling-bounce: 1") + "like: {bounced: {all: 1}, bounce-to: {features: 1}}\n"
    text += "features: {kip-595.leader-progress: {kafka: 5, seed: 1}}\nchaos: {healed: {core: 1}, number: {1: 1}}\n"
    nemesis = sources.from_text(text, "mine.yaml")
    seen = set()
    for seed in range(1, 41):
        document = nemesis.loaded(seed).document.value
        bounces = [entry["action"]["rolling-bounce"]["features"] for entry in document["chaos"] if "action" in entry]
        forms = [each["kip-595.leader-progress"] for each in (document["features"], *bounces)]
        conceded = ("heal" not in document, document["expect"].get("may", []))
        assert conceded == ((True, ["L2"]) if "seed" in forms else (False, []))
        seen.add(tuple(forms))
    assert {("kafka", "kafka"), ("kafka", "seed")} <= seen


@pytest.mark.parametrize(("voters", "most"), [(1, 0), (2, 0), (3, 1), (5, 3)])
def test_a_quorum_is_left_that_can_elect(voters: int, most: int) -> None:
    """Shows that no schedule removes more voters than leave two, nor wipes as many as are needed where they are known
    by their disks."""
    text = (
        SMALL.replace("crash: 1", "wipe: 1, remove-voter: 2") + "chaos: {number: {9: 1}}\nlike: {wiped: {voter: 1}}\n"
    )
    nemesis = sources.from_text(
        f"{text}shape: {{voters: {{{voters}: 1}}}}\nfeatures: {{kraft.version: {{1: 1}}}}\n", "mine.yaml"
    )
    seen = set()
    for seed in range(1, 41):
        kinds = _kinds(nemesis.loaded(seed).document.value["chaos"])
        removed, wiped = kinds.count("remove-voter"), kinds.count("wipe")
        assert removed <= max(0, voters - 2) and (not wiped or 2 * wiped < voters - removed)
        seen.add(removed)
    assert max(seen) == most


@pytest.mark.parametrize("pattern", PATTERNS)
def test_a_pattern_fits_every_cluster(pattern: str) -> None:
    """Shows that each pattern is a legal schedule where there are few replicas or one voter, and late in the chaos."""
    members = "processors" if pattern in OF_PROCESSORS else "members"
    lasting = pattern in (*OF_LASTING_EPOCHS, *OF_HASTY)
    features = "features: {transaction.version: {1: 1}}\n" if lasting else ""
    kinds = f"{members}: {{2: 1}}, external: {{yes: 1}}, transactional: {{yes: 1}}, static: {{yes: 1}}"
    if pattern in OF_HASTY:
        # Of that many, one has a transaction that may last for longer than its records are tried.
        kinds += ", producers: {8: 1}, delivery: {1s: 1}, records: {5: 1}"
        features += "timers: {quick: 1}\n"
    store = ", remote-store: {yes: 1}" if pattern in TIERS else ""
    nemesis = sources.from_text(
        f"{SMALL}shape: {{voters: {{1: 1, 4: 1}}, replicas: {{1: 1, 3: 1}}{store}}}\n"
        f"workload: {{{kinds}}}\n"
        "config: {metadata.propagation: {push: 1}}\n"
        f"{features}chaos: {{pattern: {{{pattern}: 1}}, number: {{0: 1}}, duration: {{1s-4s: 1}}}}\n",
        "mine.yaml",
    )
    for seed in range(1, 9):
        plan = resolve(nemesis.loaded(seed), "", seed)
        assert plan.schedule
        assert all(scheduled.optional for scheduled in plan.schedule)


@pytest.mark.parametrize("pattern", [*GROUPS, *PUSHED, *KEPT, *TRANSACTIONS, *TIERS])
def test_a_pattern_needs_what_it_is_about(pattern: str) -> None:
    """Shows that situations of groups are drawn where there is one, those of pushed metadata where it is pushed,
    those of offsets kept outside Kafka where somebody keeps them, those of transactions where there are some, and those
    of look-ups in remote storage where there is a store."""
    nemesis = sources.from_text(f"{SMALL}chaos: {{pattern: {{{pattern}: 1}}, number: {{0: 1}}}}\n", "mine.yaml")
    assert nemesis.loaded(1).document.value["chaos"] == []


@pytest.mark.parametrize(
    ("pattern", "others"),
    [
        ("late-beat", "workload: {members: {2: 1}, static: {no: 1}}\n"),
        # A record is tried for longer than any transaction lasts.
        ("repeated-init", "workload: {transactional: {yes: 1}}\nfeatures: {transaction.version: {1: 1}}\n"),
        ("repeated-init", "workload: {transactional: {yes: 1}, producers: {4: 1}, delivery: {1s: 1}}\n"),
    ],
)
def test_a_pattern_needs_clients_of_its_kind(pattern: str, others: str) -> None:
    """Shows that a situation of static members needs one, and that of a producer which asks for its next epoch again
    one that gives records up in the midst of a transaction, and that does not get its next epoch with the end of it."""
    nemesis = sources.from_text(f"{SMALL}{others}chaos: {{pattern: {{{pattern}: 1}}, number: {{0: 1}}}}\n", "mine.yaml")
    assert all(nemesis.loaded(seed).document.value["chaos"] == [] for seed in range(1, 9))


def test_consumers_go_back_where_there_is_remote_storage() -> None:
    """Shows that a consumer rewinds as the nemesis says, but only if the cluster has a remote store, or the consumer
    keeps its offsets outside Kafka."""
    for store, external, rewinds in (("yes", "no", True), ("no", "no", False), ("no", "yes", True)):
        text = (
            f"{SMALL}shape: {{remote-store: {{{store}: 1}}}}\n"
            f"workload: {{rewinds: {{yes: 1}}, external: {{{external}: 1}}}}\n"
        )
        workload = sources.from_text(text, "mine.yaml").loaded(1).document.value["workload"]
        consumers = [entry["consumer"] for entry in workload if "consumer" in entry]
        assert consumers and all(("rewind" in each) == rewinds for each in consumers), (store, external)


@pytest.mark.parametrize(
    ("shape", "drawn"),
    [
        ("retention: {no: 1}", []),
        ("retention: {yes: 1}", ["log.retention.ms"]),
        ("retention: {no: 1}, remote-store: {yes: 1}", ["log.local.retention.ms", "log.retention.ms"]),
    ],
)
def test_keys_of_retention_are_drawn_where_segments_go(shape: str, drawn: list[str]) -> None:
    """Shows that a cluster without retention has no key about it, and that a tiered topic needs them; those of tiered
    storage it needs alone."""
    text = f"{SMALL}shape: {{{shape}}}\nconfig: {{log.retention.ms: {{500: 1}}, log.local.retention.ms: {{200: 1}}}}\n"
    found = sources.from_text(text, "mine.yaml").loaded(1).document.value["cluster"]["config"]
    assert sorted(key for key in found if key.endswith(".retention.ms")) == drawn


@pytest.mark.parametrize("store", ["yes", "no"])
def test_look_ups_are_drawn_where_there_is_a_store(store: str) -> None:
    """Shows what a prober asks of a tiered topic, and that it asks for no time, nor gives up, anywhere else; and that
    what passes for a broker asks as before."""
    text = (
        f"{SMALL}shape: {{remote-store: {{{store}: 1}}}}\nworkload: {{probers: {{2: 1}}, as-broker: {{no: 1, yes: 1}}, "
        "ago: {3s: 1}, calls: {consumer: 1}, together: {yes: 1}, api-timeout: {500ms: 1}}\n"
    )
    nemesis, seen = sources.from_text(text, "mine.yaml"), set()
    for seed in range(1, 11):
        workload = nemesis.loaded(seed).document.value["workload"]
        for prober in (entry["list-offsets"] for entry in workload if "list-offsets" in entry):
            looks_up = store == "yes" and "replica-id" not in prober
            seen.add(looks_up)
            assert ("timestamp" in prober) != looks_up
            told = (prober.get("ago"), prober.get("client"), prober.get("together"))
            assert told == (("3s", "consumer", True) if looks_up else (None, None, None))
            assert prober["config"].get("default.api.timeout.ms") == (500 if looks_up else None)
    assert seen == ({True, False} if store == "yes" else {False})


def test_a_deleted_topic_comes_again() -> None:
    """Shows that each deletion that is drawn is followed by a creation, and that clients are told topics apart then;
    and that metadata epochs are drawn where metadata is pushed alone."""
    nemesis = library.load("metadata").nemesis
    deleted = minted = 0
    for seed in range(1, 61):
        drawn = draw(nemesis, seed)
        kinds = _kinds(drawn["chaos"])
        assert kinds.count("delete-topic") <= kinds.count("create-topic")
        deleted += kinds.count("delete-topic")
        seeds_own = drawn["features"]["kip-232"] == "seed"
        minted += seeds_own
        assert not seeds_own or drawn["cluster"]["config"]["metadata.propagation"] == "push"
        if "create-topic" in kinds:
            told = [
                client.get("versions", {}).get("Metadata") for entry in drawn["workload"] for client in entry.values()
            ]
            assert all(int(versions.partition("-")[2]) >= 10 for versions in told if versions)
    assert deleted and minted


def test_members_of_a_drawn_group_can_agree_and_say_who_they_are() -> None:
    """Shows that all members of a group have an assignor in common, and that static ones speak what they need."""
    nemesis, static, mixed = library.load("groups").nemesis, 0, 0
    for seed in range(1, 41):
        members = [
            entry["consumer"] for entry in draw(nemesis, seed)["workload"] if "group" in entry.get("consumer", {})
        ]
        lists = [member["config"]["partition.assignment.strategy"].split(",") for member in members]
        assert set.intersection(*map(set, lists))
        mixed += any(each != lists[0] for each in lists)
        for member in members:
            versions = member["versions"].get("JoinGroup", "0-9")
            if "group.instance.id" in member["config"]:
                static += 1
                assert int(versions.partition("-")[2]) >= 5
    assert static
    assert mixed


def test_clients_that_read_from_the_end_or_stop_without_a_position() -> None:
    """Shows that each value of auto.offset.reset is drawn, and that a consumer with none has a position to begin at."""
    nemesis, drawn = library.load("retention").nemesis, Counter[str]()
    for seed in range(1, 41):
        for consumer in (entry["consumer"] for entry in draw(nemesis, seed)["workload"] if "consumer" in entry):
            reset = consumer["config"].get("auto.offset.reset", "earliest")
            drawn[reset] += 1
            assert ("seek" in consumer) == (reset == "none")
    assert drawn.keys() == {"earliest", "latest", "none"}


def test_members_with_one_instance_id() -> None:
    """Shows that two members of a drawn group have one group.instance.id, and speak what static members need."""
    groups = library.load("groups").nemesis
    workload = groups.workload.model_copy(update={"twins": {"yes": 1.0}})
    nemesis = groups.model_copy(update={"workload": workload})
    members = [each["consumer"] for each in draw(nemesis, 1)["workload"] if "group" in each.get("consumer", {})]
    twins = [each for each in members if each["config"].get("group.instance.id") == "twin"]
    assert len(twins) == 2
    assert all(int(each["versions"].get("JoinGroup", "0-9").partition("-")[2]) >= 5 for each in twins)


def test_processors_that_stay_in_transactions_are_in_their_group_most_of_the_time() -> None:
    """Shows that a processor stays in a transaction for two of its poll intervals at most, and then polls for three of
    them before the next time, another producer's start not counted: by turns, two of them would never be there at a
    time."""
    nemesis, staying = library.load("processors").nemesis, 0
    for seed in range(1, 41):
        clients = [entry["consumer"] for entry in draw(nemesis, seed)["workload"] if "consumer" in entry]
        for client in clients:
            stay = client.get("transactional", {}).get("stay")
            if stay is not None:
                staying += 1
                interval_us = 1000 * int(client["config"].get("max.poll.interval.ms", 4000))
                lasts_us, every_us = parse_duration_us(stay["lasts"]), parse_duration_us(stay["every"])
                assert lasts_us <= 2 * interval_us
                assert every_us >= lasts_us + 1_000_000 + 3 * interval_us
    assert staying


def test_a_batch_of_a_processor_fits_into_a_segment() -> None:
    """Shows that processors make smaller batches where segments are smaller than Kafka's batches, and that nothing else
    is drawn for it: a batch that does not fit is refused again and again."""
    nemesis, sizes = library.load("everything").nemesis, set()
    for seed in range(1, 600):
        drawn = draw(nemesis, seed)
        segment = drawn["cluster"]["config"].get("log.segment.bytes")
        for entry in drawn["workload"]:
            ((_, client),) = entry.items()
            size = client.get("config", {}).get("batch.size")
            assert size == (segment if "copy-to" in client and segment in (1000, 3000) else None)
            sizes.add(size)
    assert sizes == {None, 1000, 3000}


def test_nothing_of_a_nemesis_takes_what_clients_need() -> None:
    """Shows that clients that are older are still able to ask what they were drawn to ask."""
    nemesis, drawn = library.load("everything").nemesis, set()
    for seed in range(1, 200):
        for entry in draw(nemesis, seed)["workload"]:
            ((_, client),) = entry.items()
            newest = int(client.get("versions", {}).get("ListOffsets", "1-11").partition("-")[2])
            drawn.add(newest)
            assert newest >= (7 if client.get("timestamp") == "max-timestamp" else 1)
            assert newest >= (2 if client.get("isolation") == "read_committed" else 1)
    assert min(drawn) < 7


def test_the_published_schema_is_the_models_schema() -> None:
    """Shows that docs/nemesis.schema.json is what the models say; ``python -m chaos.nemesis.schema`` writes it."""
    assert (ROOT / SCHEMA_FILE).read_text(encoding="utf-8") == schema_text()
    assert json.loads(schema_text()) == json_schema()


def test_the_disk_of_a_broker_is_none_by_which_voters_are_known() -> None:
    """Shows that as many wipes of brokers are drawn as come, and of controllers no more than a quorum survives."""
    brokers = [{"fault": {"wipe": {"nodes": [each]}}} for each in ("broker-1", "leader(orders-0)", "isr(orders-0)[0]")]
    controllers = [{"fault": {"wipe": {"nodes": [each]}}} for each in ("controller-1", "voters(follower)[1]")]
    assert bearable([*brokers, *controllers], 3, 0) == [*brokers, controllers[0]]
