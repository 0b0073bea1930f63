"""Brings a Ray up on Spark's executors, and says whether it serves a caller without a token ("open" or "closed")."""

from __future__ import annotations

from chaos.errors import RunError
from orchestrator.clusters.ray_address import parse_address
from orchestrator.clusters.ray_on_spark import DEFAULT_MASTER, RayOnSparkCluster, spark_for_ray
from orchestrator.clusters.security import refuse_an_open_ray

if __name__ == "__main__":
    spark = spark_for_ray(DEFAULT_MASTER)
    with RayOnSparkCluster(lambda: spark) as cluster:
        place = parse_address(cluster.address)
        assert place is not None, cluster.address
        assert len(cluster.places()) == 2, "both executors have joined"
        try:
            refuse_an_open_ray(*place)
            print("closed")
        except RunError:
            print("open")
    spark.stop()
