"""The live runtime: each node is a Ray actor, and messages travel as gRPC over sockets."""
