"""What happens to a cluster: scenarios, faults, their schedules, and the library of incidents."""
