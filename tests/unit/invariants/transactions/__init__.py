"""Transactions: T4 to T14."""
