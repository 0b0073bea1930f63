"""What a run put the protocol through: its states and transitions as coverage points, few enough to be counted.

``observer.Coverage`` is fed a trace and collects points. A point is a family and a few bucketed values, as text such
as ``leader/fence/2/10/at/0``: the same run gives the same points on any machine, and what thousands of runs give are a
few thousand. What each family's values are is said where it is made, and in docs/guidance.md.
"""
