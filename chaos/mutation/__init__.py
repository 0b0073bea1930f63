"""Mutation: from a scenario and a second one of its kind to a third, which is like the first and valid.

``mutate.mutate`` is a pure function of the two documents and a seed. Whatever is put in comes from the second
document (a fault, a setting, a client, a shape), so that a mutated scenario says nothing that the source of both
would not have drawn.
"""
