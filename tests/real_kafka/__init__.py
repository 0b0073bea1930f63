"""Outcomes that a client of Kafka sees, asked of Krift and of the real Kafka by the same script.

``cases`` is the script: sections of questions, each on a cluster of three brokers and three controllers.
``sim_cluster`` is Krift, ``real_cluster`` and ``wire`` the real one. ``outcomes-4.3.1.json`` is what Kafka 4.3.1 said;
``python -m tests.real_kafka`` asks it again and writes it anew.
"""
