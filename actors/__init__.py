"""The Kafka nodes, written once as pure state machines, and the runtimes that drive them."""
