"""The checkers' own exam: do they catch every planted bug under schedules that nobody made for it, and are they silent
about what looks wrong and is legal?"""
