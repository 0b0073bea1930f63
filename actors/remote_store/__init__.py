"""The remote store: keeps the objects of segments that brokers copy to it."""
