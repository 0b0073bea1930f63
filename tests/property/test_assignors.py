"""What every assignment of partitions to the members of a group must have."""

from __future__ import annotations

from hypothesis import given, strategies as st

from actors.client.assignors.cooperative_sticky_assignor import assign_cooperative_sticky
from actors.client.assignors.registry import ASSIGNORS
from actors.client.assignors.subscription import Assignment, Subscription, Subscriptions

TOPICS = ("a", "b", "c")
counts_of = st.dictionaries(st.sampled_from(TOPICS), st.integers(1, 7), min_size=1)
members_of = st.dictionaries(
    st.sampled_from([f"m{number}" for number in range(6)]),
    st.lists(st.sampled_from(TOPICS), min_size=1, unique=True),
    min_size=1,
)


def shared_out(assignment: Assignment) -> list[tuple[str, int]]:
    """All that is assigned, in order."""
    return sorted(each for parts in assignment.values() for each in parts)


def wanted(counts: dict[str, int], members: dict[str, list[str]]) -> list[tuple[str, int]]:
    """All that somebody wants, in order."""
    topics = {topic for each in members.values() for topic in each}
    return sorted((topic, number) for topic in topics if topic in counts for number in range(counts[topic]))


@given(st.sampled_from(sorted(ASSIGNORS)), counts_of, members_of)
def test_each_partition_goes_to_one_member_that_wants_it(
    name: str, counts: dict[str, int], members: dict[str, list[str]]
) -> None:
    """Shows that of members that own nothing each partition gets exactly one."""
    subscriptions = {member: Subscription(topics) for member, topics in members.items()}
    assignment = ASSIGNORS[name].assign(counts, subscriptions)
    assert shared_out(assignment) == wanted(counts, members)
    assert all(topic in members[member] for member, parts in assignment.items() for topic, _ in parts)


def settled(counts: dict[str, int], subscriptions: Subscriptions) -> tuple[Assignment, int]:
    """Rebalances as members make them, until nobody has to give anything up, and how many those were."""
    for rounds in range(1, 8):
        assignment = assign_cooperative_sticky(counts, subscriptions)
        held = {each: member for member, sub in subscriptions.items() for each in sub.owned}
        for member, parts in assignment.items():
            for each in parts:
                assert held.get(each, member) == member, f"{each} goes to {member} while {held[each]} owns it"
        again = any(set(subscriptions[member].owned) - set(parts) for member, parts in assignment.items())
        subscriptions = {
            member: Subscription(subscriptions[member].topics, list(parts), rounds)
            for member, parts in assignment.items()
        }
        if not again:
            return assignment, rounds
    raise AssertionError("members give up partitions for ever")


@given(counts_of, members_of, members_of, st.booleans())
def test_cooperative_members_never_get_what_another_one_owns(
    counts: dict[str, int], before: dict[str, list[str]], after: dict[str, list[str]], equal: bool
) -> None:
    """Shows that a group whose members come, go and change their minds ends with each partition at one member within a
    few rebalances, in none of which something goes from one member to another at once."""
    if equal:
        before = dict.fromkeys(before, list(TOPICS))
        after = dict.fromkeys(after, list(TOPICS))
    first, rounds = settled(counts, {member: Subscription(topics) for member, topics in before.items()})
    assert rounds == 1
    subscriptions = {
        member: Subscription(topics, list(first.get(member, [])), 1 if member in first else -1)
        for member, topics in after.items()
    }
    second, rounds = settled(counts, subscriptions)
    assert rounds <= 3
    assert shared_out(second) == wanted(counts, after)
    if equal:
        loads = [len(parts) for parts in second.values()]
        assert max(loads) - min(loads) <= 1
        stayed = [member for member in after if member in before]
        least = sum(counts.values()) // len(after)
        for member in stayed:
            kept = len(set(first[member]) & set(second[member]))
            assert kept >= min(len(first[member]), least), "a member lost more than the balance asks for"


@given(counts_of, st.sets(st.sampled_from([f"m{number}" for number in range(6)]), min_size=1))
def test_what_is_balanced_stays(counts: dict[str, int], names: set[str]) -> None:
    """Shows that a rebalance in which nothing changed moves nothing."""
    fresh = {name: Subscription(list(TOPICS)) for name in sorted(names)}
    first = assign_cooperative_sticky(counts, fresh)
    owning = {name: Subscription(list(TOPICS), list(first[name]), 1) for name in fresh}
    assert assign_cooperative_sticky(counts, owning) == first
