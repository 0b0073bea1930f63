"""Bounded exhaustive exploration of the voters: every order of delivery, time-out, sync and crash."""
